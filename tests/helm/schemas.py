"""Writes JSON schemas for kubeconform, which fetches them from the internet otherwise.

    schemas.py HELM KUBERNETES PROMETHEUS_OPERATOR CERT_MANAGER OUT

HELM is the program, which also reads YAML for us; the next three are the folders of those Go modules: OpenAPI of the
first, custom resource definitions of the others. JobSet is in no module; of it the fields that the chart uses are
written here, and the Job in it is Kubernetes' own.

Beside them, in OUT/crds.json, stand the definitions themselves, for an API server.

Every object refuses properties that it doesn't know, as kubeconform's -strict does.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

# Everything that the chart renders.
KINDS = {'ConfigMap', 'Job', 'NetworkPolicy', 'Pod', 'PodDisruptionBudget', 'Secret', 'Service', 'ServiceAccount',
         'StatefulSet'}
JOB_SPEC = 'io.k8s.api.batch.v1.JobSpec'
OBJECT_META = 'io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta'
# Strings for OpenAPI, where the API accepts more.
SPECIAL = {
    'io.k8s.apimachinery.pkg.util.intstr.IntOrString': {'type': ['string', 'integer']},
    'io.k8s.apimachinery.pkg.api.resource.Quantity': {'type': ['string', 'number']},
}


def closed(schema):
    """The schema with unknown properties refused, and OpenAPI's ways of speaking turned into JSON Schema's."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items() if not key.startswith('x-kubernetes-')}
    if schema.get('x-kubernetes-int-or-string'):
        result.pop('type', None)
        result.pop('anyOf', None)
        result['type'] = ['string', 'integer']
    is_object = isinstance(schema.get('properties'), dict) and schema.get('type', 'object') == 'object'
    if is_object and 'additionalProperties' not in schema and not schema.get('x-kubernetes-preserve-unknown-fields'):
        result['additionalProperties'] = False
    return result


def referred(schema, found):
    """Names of the definitions that a schema needs, by those they need."""
    if isinstance(schema, list):
        for item in schema:
            referred(item, found)
    elif isinstance(schema, dict):
        reference = schema.get('$ref')
        if isinstance(reference, str):
            name = reference.removeprefix('#/definitions/')
            if name not in found:
                found.add(name)
                referred(DEFINITIONS[name], found)
        for value in schema.values():
            referred(value, found)
    return found


def write(folder, kind, group, version, schema):
    suffix = f'{group.split(".")[0]}-{version}' if group else version
    needed = referred(schema, set())
    schema = dict(schema, definitions={name: DEFINITIONS[name] for name in sorted(needed)})
    (folder / f'{kind}-{suffix}.json'.lower()).write_text(json.dumps(schema))


def yaml_to_json(helm, texts):
    """Helm as a reader of YAML: no package of Python's is needed."""
    with tempfile.TemporaryDirectory() as folder:
        chart = pathlib.Path(folder)
        (chart / 'Chart.yaml').write_text('apiVersion: v2\nname: reader\nversion: 0.0.0\n')
        (chart / 'in').mkdir()
        (chart / 'templates').mkdir()
        for index, text in enumerate(texts):
            (chart / 'in' / f'{index:03}.yaml').write_text(text)
        (chart / 'templates' / 'all.yaml').write_text(
            '{{ range $path, $_ := .Files.Glob "in/*" }}\n---\n{{ $.Files.Get $path | fromYaml | toJson }}\n{{ end }}')
        out = subprocess.run([helm, 'template', 'r', folder], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith('{')]


def custom_resources(helm, prometheus_operator, cert_manager):
    for path in sorted((prometheus_operator / 'jsonnet/prometheus-operator').glob('*-crd.json')):
        yield json.loads(path.read_text())
    texts = []
    for path in sorted((cert_manager / 'deploy/crds').glob('crd-*.yaml')):
        # Templates of a chart, which are plain without the chart's lines.
        lines = path.read_text().splitlines()
        texts.append('\n'.join(line for line in lines if '{{' not in line))
    yield from yaml_to_json(helm, texts)


def job_set():
    job_template = {'type': 'object', 'additionalProperties': False, 'required': ['spec'], 'properties': {
        'metadata': {'$ref': f'#/definitions/{OBJECT_META}'}, 'spec': {'$ref': f'#/definitions/{JOB_SPEC}'}}}
    replicated = {'type': 'object', 'additionalProperties': False, 'required': ['name', 'template'], 'properties': {
        'name': {'type': 'string'}, 'replicas': {'type': 'integer'}, 'template': job_template}}
    spec = {'type': 'object', 'additionalProperties': False, 'properties': {
        'replicatedJobs': {'type': 'array', 'items': replicated},
        'failurePolicy': {'type': 'object', 'additionalProperties': False, 'properties': {
            'maxRestarts': {'type': 'integer'}}}}}
    return {'type': 'object', 'additionalProperties': False, 'required': ['spec'], 'properties': {
        'apiVersion': {'type': 'string'}, 'kind': {'type': 'string'},
        'metadata': {'$ref': f'#/definitions/{OBJECT_META}'}, 'spec': spec}}


def job_set_definition():
    """Takes whatever is in it: what the chart writes is checked against job_set()."""
    return {'apiVersion': 'apiextensions.k8s.io/v1', 'kind': 'CustomResourceDefinition',
            'metadata': {'name': 'jobsets.jobset.x-k8s.io', 'annotations': {
                'api-approved.kubernetes.io': 'https://github.com/kubernetes-sigs/jobset'}},
            'spec': {'group': 'jobset.x-k8s.io', 'scope': 'Namespaced',
                     'names': {'kind': 'JobSet', 'plural': 'jobsets', 'singular': 'jobset', 'listKind': 'JobSetList'},
                     'versions': [{'name': 'v1alpha2', 'served': True, 'storage': True, 'schema': {'openAPIV3Schema': {
                         'type': 'object', 'x-kubernetes-preserve-unknown-fields': True}}}]}}


def main():
    helm = sys.argv[1]
    kubernetes, prometheus_operator, cert_manager, out = map(pathlib.Path, sys.argv[2:])
    out.mkdir(parents=True, exist_ok=True)
    openapi = json.loads((kubernetes / 'api/openapi-spec/swagger.json').read_text())['definitions']
    for name, definition in openapi.items():
        DEFINITIONS[name] = SPECIAL.get(name) or closed(definition)
    for name, definition in openapi.items():
        for which in definition.get('x-kubernetes-group-version-kind', []):
            if which['kind'] in KINDS and definition.get('properties', {}).get('metadata'):
                write(out, which['kind'], which['group'], which['version'], DEFINITIONS[name])
    definitions = list(custom_resources(helm, prometheus_operator, cert_manager))
    definitions.append(job_set_definition())
    (out / 'crds.json').write_text(json.dumps({'apiVersion': 'v1', 'kind': 'List', 'items': definitions}))
    for definition in definitions[:-1]:
        spec = definition['spec']
        for version in spec['versions']:
            schema = closed(version['schema']['openAPIV3Schema'])
            schema['properties']['metadata'] = {'$ref': f'#/definitions/{OBJECT_META}'}
            write(out, spec['names']['kind'], spec['group'], version['name'], schema)
    write(out, 'JobSet', 'jobset.x-k8s.io', 'v1alpha2', job_set())


DEFINITIONS = {}
if __name__ == '__main__':
    main()
