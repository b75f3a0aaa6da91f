#!/usr/bin/env python3
"""The command lines that the chart writes, given to the real programs on this machine.

    command_lines.py PROGRAMS     (a folder with longwave, longwave-server and longwave-worker)

The chart is rendered, secured by its own authority; what Kubernetes would do is done here: $(NAME) in arguments, init
containers first, one process a pod. Paths lead to a temporary folder, and names and ports of the cluster to ports of
loopback. Then the workers train, helm test's command asks the coordinator, and SIGTERM ends them all.
Ends with status 77 and a reason where Helm is missing.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from schemas import yaml_to_json

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / 'tests/support'))
import held_ports  # pylint: disable=wrong-import-position
HELM = ROOT / '.tools/bin/helm'
VALUES = {
    'shards.replicas': 2, 'workers.replicas': 2, 'workers.threads': 1,
    'config.data.path': 'compiler-headers',  # pods have none, but this machine does
    'config.run.workers': 2, 'config.run.steps': '6e1',  # text to Helm
    'config.model.d_model': 32, 'config.model.layers': 1,
    'config.sync.inner_steps': 15, 'config.train.warmup_steps': 5, 'config.cluster.start_timeout_s': 60,
}
# Far above any duration here, even on a busy machine: only hanging processes reach them.
START_S, ROUND_S, END_S = 120, 240, 120


class Ports:
    """A reserved port of loopback for each port of each pod."""

    def __init__(self):
        self.holders = {}

    def __call__(self, pod, port):
        if (pod, port) not in self.holders:
            self.holders[pod, port] = held_ports.hold()
        return self.holders[pod, port].getsockname()[1]


def render():
    settings = [f'--set={key}={value}' for key, value in VALUES.items()]
    text = subprocess.run([HELM, 'template', 'run', ROOT / 'helm/longwave', '--namespace=training',
                           '--kube-version=1.33.0', *settings], check=True, capture_output=True, text=True).stdout
    return yaml_to_json(HELM, [part for part in re.split(r'(?m)^---$', text) if 'kind:' in part])


class Pod:
    """A pod's stand-in: a folder, and processes with the arguments that a kubelet would give them."""

    def __init__(self, folder, name, labels, spec, ports, programs):
        self.name, self.spec, self.ports, self.programs = name, spec, ports, programs
        self.fields = {'metadata.name': name} | {f"metadata.labels['{key}']": value for key, value in labels.items()}
        self.folder = folder / name
        self.folder.mkdir()
        self.paths = {'/etc/longwave/config.yaml': folder / 'config.yaml', '/authority': folder / 'authority',
                      '/etc/longwave/security': self.folder / 'security', '/var/lib/longwave': self.folder / 'state'}
        self.process, self.log = None, self.folder / 'log'

    def argument(self, text, values):
        text = re.sub(r'\$\((\w+)\)', lambda match: values[match[1]], text)
        if not text.startswith(('--dns=', '--role=')):
            text = re.sub(r'0\.0\.0\.0:(\d+)', lambda match: f'127.0.0.1:{self.ports(self.name, match[1])}', text)
            text = re.sub(r'([\w-]+)\.run-longwave-shard\.training\.svc\.cluster\.local:(\d+)',
                          lambda match: f'localhost:{self.ports(match[1], match[2])}', text)
            text = text.replace('run-longwave-coordinator.training.svc.cluster.local:7070',
                                f'localhost:{self.ports("run-longwave-coordinator-0", "7070")}')
            for path, real in self.paths.items():
                text = re.sub(rf'(^|=){path}(?=/|$)', rf'\g<1>{real}', text)
        return text

    def command(self, container):
        values = {entry['name']: entry.get('value') or self.fields[entry['valueFrom']['fieldRef']['fieldPath']]
                  for entry in container.get('env', [])}
        arguments = [self.argument(text, values) for text in container['command'] + container['args']]
        return [self.programs / arguments[0], *arguments[1:]]

    def initialize(self):
        for container in self.spec.get('initContainers', []):
            subprocess.run(self.command(container), check=True)

    def start(self):
        with open(self.log, 'w', encoding='utf-8') as log:
            self.process = subprocess.Popen(self.command(self.spec['containers'][0]), stdout=log, stderr=log)

    def probe(self):
        """A worker's probe, as a kubelet makes it."""
        check = self.spec['containers'][0]['readinessProbe']['httpGet']
        with urllib.request.urlopen(f'http://127.0.0.1:{self.ports(self.name, "9464")}{check["path"]}', timeout=5) as got:
            return got.status == 200


def wait_until(what, condition, pods, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for pod in pods:
            if pod.process.poll() is not None:
                raise SystemExit(f'{pod.name} has ended ({pod.process.returncode}): {pod.log.read_text()[-2000:]}')
        try:
            if condition():
                print(f'ok    {what}', flush=True)
                return
        except OSError:
            pass
        time.sleep(0.1)
    logs = '\n'.join(f'{pod.name}: {pod.log.read_text()[-500:]}' for pod in pods)
    raise SystemExit(f'FAIL  {what}: not within {seconds} s\n{logs}')


def run(folder, programs):
    objects = render()
    config = next(found for found in objects if found['kind'] == 'ConfigMap')['data']['config.yaml']
    authority = next(found for found in objects if found['kind'] == 'Secret')['data']
    (folder / 'authority').mkdir()
    for name, data in authority.items():
        decoded = subprocess.run(['base64', '-d'], input=data.encode(), check=True, capture_output=True).stdout
        (folder / 'authority' / name).write_bytes(decoded)

    ports = Ports()
    pods = []
    for found in objects:
        if found['kind'] != 'StatefulSet':
            continue
        template = found['spec']['template']
        for index in range(found['spec']['replicas']):
            labels = template['metadata']['labels'] | {'apps.kubernetes.io/pod-index': str(index)}
            pods.append(Pod(folder, f'{found["metadata"]["name"]}-{index}', labels, template['spec'], ports, programs))
    coordinator = next(pod for pod in pods if 'coordinator' in pod.name)
    workers = [pod for pod in pods if 'worker' in pod.name]
    text = coordinator.argument(re.search(r'coordinator: (\S+)', config)[1], {})
    config = re.sub(r'coordinator: \S+', f'coordinator: {text}', config)
    (folder / 'config.yaml').write_text(config)
    operator = next(found for found in objects if found['kind'] == 'Pod')
    operator = Pod(folder, operator['metadata']['name'], {}, operator['spec'], ports, programs)

    try:
        for pod in [*pods, operator]:
            pod.initialize()
        for pod in pods:
            # The configuration names the folder of every pod; here each process has its own.
            pod.spec = json.loads(json.dumps(pod.spec))
            pod.spec['containers'][0]['args'].append('--set=security.folder=/etc/longwave/security')
            pod.start()
        wait_until('the workers answer their probes', lambda: all(pod.probe() for pod in workers), pods, START_S)
        metrics = coordinator.paths['/var/lib/longwave'] / 'run/metrics.jsonl'
        wait_until('a round is merged', lambda: metrics.read_text().count('\n') >= 1, pods, ROUND_S)
        status = subprocess.run(operator.command(operator.spec['containers'][0]), check=False, capture_output=True, text=True)
        if status.returncode != 0:
            raise SystemExit(f'FAIL  helm test asks for the status: {status.stderr or status.stdout}')
        print('ok    helm test asks for the status', flush=True)
        token = subprocess.run(
            coordinator.command({'command': ['longwave', 'token', 'create'],
                                 'args': ['run-longwave-coordinator.training.svc.cluster.local:7070',
                                          '--security', '/etc/longwave/security']}),
            check=False, capture_output=True, text=True)
        if token.returncode != 0 or not token.stdout.startswith('lw1.'):
            raise SystemExit(f"FAIL  the notes' token, made in the coordinator's pod: {token.stderr or token.stdout}")
        print("ok    the notes' token, made in the coordinator's pod", flush=True)
        weights = [pod.paths['/var/lib/longwave'] / 'run/model.safetensors' for pod in workers]
        wait_until('the weights are written and everyone stays', lambda: any(map(os.path.exists, weights)), pods, ROUND_S)
        for pod in reversed(pods):
            pod.process.send_signal(signal.SIGTERM)
        for pod in pods:
            try:
                pod.process.wait(END_S)
            except subprocess.TimeoutExpired:
                raise SystemExit(f'FAIL  {pod.name} is still there {END_S} s after SIGTERM: {pod.log.read_text()[-1000:]}') from None
            if pod.process.returncode != 0:
                raise SystemExit(f'FAIL  {pod.name} ends with {pod.process.returncode}: {pod.log.read_text()[-1000:]}')
        print(f'ok    SIGTERM ends all {len(pods)} processes cleanly', flush=True)
    finally:
        for pod in pods:
            if pod.process is not None and pod.process.poll() is None:
                pod.process.kill()
                pod.process.wait()


def main():
    there = subprocess.run([ROOT / 'tools/helm.sh', '--there'], check=False)
    if there.returncode != 0:
        return there.returncode
    with tempfile.TemporaryDirectory() as folder:
        run(pathlib.Path(folder), pathlib.Path(sys.argv[1]).resolve())
    return 0


if __name__ == '__main__':
    sys.exit(main())
