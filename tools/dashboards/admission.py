"""Admission: joins, rejects, and expiring certificates."""

from panels import *


def left(matcher):
    return (f'({process("longwave_certificate_expiry_timestamp_seconds", matcher)} - time()) / '
            f'{process("longwave_certificate_lifetime_seconds", matcher)}')


def dashboard():
    refused = [s("coordinator_peers_refused_total"), s("shard_peers_refused_total")]
    return board("admission", "Admission",
                 "Who may take part, who was rejected and why, and whose certificate runs out.", [
        row("Refused"),
        number("Peers refused", "Calls of peers that may not make them, at the coordinator and the shards, "
               "in the time that is shown.",
               target(" + ".join(f"sum(increase({peers}[$__range]))" for peers in refused)),
               limits=(GREEN, (1, ORANGE)), width=6, decimals=0),
        number("Tokens refused", "Attempts to join that were refused for their token, in the time that is "
               "shown.", target(f'sum(increase({s("coordinator_tokens_refused_total")}[$__range]))'),
               limits=(GREEN, (1, ORANGE)), width=6, decimals=0),
        number("Connections refused", "Connections to shards' data ports that were refused, in the time "
               "that is shown.",
               target(f'sum(increase({s("shard_connections_refused_total")}[$__range]))'),
               limits=(GREEN, (1, ORANGE)), width=6, decimals=0),
        number("Frames refused", "Frames of no use to shards, in the time that is shown.",
               target(f'sum(increase({s("shard_frames_refused_total")}[$__range]))'),
               limits=(GREEN, (1, ORANGE)), width=6, decimals=0),
        lines("Peers", "Calls a second that were refused for who made them: no certificate, one of another "
              "authority or run out, one for another role or name, or an expelled worker's.",
              [target(total(rate(refused[0]), "reason"), "coordinator: {{reason}}"),
               target(total(rate(refused[1]), "reason"), "shards: {{reason}}")], unit="cps",
              limits=(GREEN, (0.1, ORANGE)), low=0, width=8),
        lines("Tokens", "Attempts to join a second that were refused for their token: unknown, used up, "
              "expired, revoked, or for something else.",
              [target(rate(s("coordinator_tokens_refused_total")), "refused")], unit="cps",
              limits=(GREEN, (0.1, ORANGE)), low=0, width=8),
        lines("Data ports", "Connections a second that were refused, for a key of nobody's or since they "
              "do not speak CURVE; and frames that do not verify, of strangers, or that name another worker.",
              [target(total(rate(s("shard_connections_refused_total"))), "connections"),
               target(total(rate(s("shard_frames_refused_total")), "reason"), "frame: {{reason}}")],
              unit="cps", limits=(GREEN, (0.1, ORANGE)), low=0, width=8),
        lines("Registrations and heartbeats refused", "By the status that they got. `unavailable` is asked "
              "again and does no harm.",
              [target(rate(s("coordinator_calls_refused_total")), "{{reason}}")], unit="cps", low=0,
              width=8),
        row("Let in"),
        lines("Certificates issued", "To who joins and to who renews one, in each interval.",
              [target(increase(s("coordinator_certificates_issued_total")), "issued")], low=0, width=8),
        lines("Certificates run out", "Remaining life of each process's certificate. They are renewed "
              "when a third is left. Only with `security.mode` on.",
              [target(left('shard="", worker=""'), "coordinator"),
               target(left('shard!=""'), "shard {{shard}}"),
               target(left('worker!=""'), "{{worker}}")], unit="percentunit",
              limits=(RED, (0.2, YELLOW), (0.3, GREEN)), low=0, high=1, width=8),
        lines("Members", "Workers that take part in rounds, and those that the run waited for before its "
              "first round.",
              [target(s("coordinator_members_active"), "active"),
               target(s("coordinator_members_wanted"), "wanted at the start")], low=0, width=8),
    ], variables=(SHARD,))
