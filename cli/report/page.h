#ifndef LONGWAVE_CLI_REPORT_PAGE_H_
#define LONGWAVE_CLI_REPORT_PAGE_H_

namespace longwave {

// The files of cli/report/page, which the build embeds. The page has a comment "/* name */" where
// style, program and data belong.
extern const char* const kReportHtml;
extern const char* const kReportCss;
extern const char* const kReportJs;
// The page that fetches style, program and data from a server.
extern const char* const kReportLive;

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPORT_PAGE_H_
