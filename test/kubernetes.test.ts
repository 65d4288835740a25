import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { readSettings } from '#config/read-settings.ts';
import { fileVariables } from '#config/setting-files.ts';
import { settingDefinitions } from '#config/settings.ts';
import { metricDefinitions } from '#telemetry/metric-definitions.ts';
import { helmFile, helmSkip } from './support/helm.ts';
import { type KubernetesObject, ofKind, readObjects, selects } from './support/kubernetes-objects.ts';
import { useSharedService } from './support/millrace.ts';
import { projectFiles, projectRoot, readProjectFile } from './support/project-files.ts';

const run = promisify(execFile);
const manifests = projectFiles().filter((file) => file.startsWith('ops/kubernetes/'));
const chart = 'ops/helm/millrace';
const containerfile = readProjectFile('Containerfile');
const settingNames = new Set([
  ...Object.values(settingDefinitions).map(({ env }) => env as string),
  ...fileVariables(),
]);
const allRoles = ['api', 'ingress', 'scheduler', 'worker'];
/** What a shell on the cluster gives; the API has nothing of it. */
const needsWalls = { hostUsers: false, profile: 'Unconfined', procMount: 'Unmasked' };

const renderings: Record<string, readonly string[]> = {
  'with its own values': [],
  'with the embedded store': ['--set', 'store=embedded'],
  'at the seat belt': ['--set', 'sandbox=seat-belt'],
  'by the age of the queue': [
    ...['--set', 'parts.worker.autoscaling.queueAgeSeconds=10,parts.worker.autoscaling.cpu=0'],
  ],
  'with pgbouncer, one part and settings': [
    ...['--set', 'parts.front=null,parts.worker.serves=true,parts.worker.autoscaling=null'],
    ...['--set', 'parts.worker.roles={api,ingress,scheduler,worker},parts.worker.replicas=3'],
    ...['--set', 'secrets.databaseSession.name=pg,secrets.databaseSession.key=url'],
    ...['--set', 'settings.MILLRACE_QUOTA_EVENTS=100000,ingress.className=nginx,ingress.tlsSecret='],
  ],
};

describe('the manifests', () => {
  for (const file of manifests) {
    test(`${file} keeps what the image and the settings promise`, () => {
      checkObjects(readObjects(readProjectFile(file)));
    });
  }

  test('scale by a metric that there is, under the name of the other autoscaler', () => {
    const objects = readObjects(readProjectFile('ops/kubernetes/autoscaling.yaml'));
    const [rules] = parse(ofKind(objects, 'ConfigMap')[0]?.data?.rules ?? '') as { name: { as: string } }[];
    const [autoscaler] = ofKind(objects, 'HorizontalPodAutoscaler');
    const external = autoscaler?.spec.metrics[0].external.metric.name;
    assert.equal(rules?.name.as, external);
    assert.ok(Object.hasOwn(metricDefinitions, external));
    const usual = ofKind(
      readObjects(readProjectFile('ops/kubernetes/nodes.yaml')),
      'HorizontalPodAutoscaler',
    );
    assert.deepEqual(
      usual.map(({ metadata }) => metadata.name),
      [autoscaler?.metadata.name],
    );
  });
});

describe('probes', () => {
  const fixture = useSharedService();

  test('ask for pages that answer', async () => {
    const paths = [...manifests, `${chart}/templates/_pod.tpl`].flatMap((file) =>
      [...readProjectFile(file).matchAll(/httpGet: \{ path: (\S+), port: 8080 \}/g)].map(
        ([, path = '']) => path,
      ),
    );
    assert.equal(paths.length, 12);
    for (const path of new Set([...paths, '/metrics']))
      assert.equal((await fetch(`${fixture.service.url}${path}`)).status, 200, path);
  });
});

describe('the templates of the Helm chart', () => {
  const templates = projectFiles().filter((file) => file.startsWith(`${chart}/templates/`));

  test('name settings, metrics and values that there are', () => {
    const values = parse(readProjectFile(`${chart}/values.yaml`)) as Record<string, unknown>;
    for (const file of templates) {
      const text = readProjectFile(file);
      for (const [name] of text.matchAll(/MILLRACE_[A-Z_]+/g))
        assert.ok(settingNames.has(name), `${file}: ${name}`);
      for (const [name] of text.matchAll(/\bmillrace_[a-z_]+/g))
        assert.ok(Object.hasOwn(metricDefinitions, name), `${file}: ${name}`);
      for (const [, path = ''] of text.matchAll(/\.Values\.([A-Za-z.]+)/g))
        assert.notEqual(
          path
            .split('.')
            .reduce<unknown>((value, name) => (value as Record<string, unknown>)?.[name], values),
          undefined,
          `${file}: .Values.${path}`,
        );
    }
  });

  test('open and close as many blocks', () => {
    for (const file of templates) {
      const text = readProjectFile(file);
      const count = (pattern: RegExp) => [...text.matchAll(pattern)].length;
      assert.equal(count(/\{\{-? *(?:if|range|with|define)\b/g), count(/\{\{-? *end\b/g), file);
    }
  });

  test('are of the version of the service', () => {
    const { version } = JSON.parse(readProjectFile('package.json'));
    const about = parse(readProjectFile(`${chart}/Chart.yaml`));
    assert.deepEqual([about.version, about.appVersion], [version, version]);
  });
});

describe('the Helm chart', { skip: helmSkip() }, () => {
  const render = async (...options: readonly string[]): Promise<KubernetesObject[]> => {
    const { stdout } = await run(helmFile(), ['template', 'millrace', join(projectRoot, chart), ...options]);
    return readObjects(stdout);
  };

  test('passes lint', async () => {
    const { stdout } = await run(helmFile(), ['lint', '--strict', join(projectRoot, chart)]);
    assert.match(stdout, /1 chart\(s\) linted, 0 chart\(s\) failed/);
  });

  for (const [how, options] of Object.entries(renderings)) {
    test(`keeps what the image and the settings promise, ${how}`, async () => {
      checkObjects(await render(...options));
    });
  }

  test('makes the manifest of nodes from its own values', async () => {
    const rendered = await render();
    for (const { spec } of ofKind(rendered, 'Deployment'))
      delete spec.template.metadata.annotations['checksum/config'];
    assert.deepEqual(byName(rendered), byName(readObjects(readProjectFile('ops/kubernetes/nodes.yaml'))));
  });

  test('replaces the pods when a setting changes', async () => {
    const checksums = async (...options: readonly string[]) =>
      ofKind(await render(...options), 'Deployment').map(
        ({ spec }) => spec.template.metadata.annotations['checksum/config'],
      );
    const [before, after] = [
      await checksums(),
      await checksums('--set-string', 'settings.MILLRACE_QUOTA_EVENTS=9'),
    ];
    assert.ok(before.length > 0 && before.every((one, index) => one !== after[index]));
  });

  test('makes the autoscaler of the queue from two values', async () => {
    const rendered = await render('--set', 'parts.worker.autoscaling.queueAgeSeconds=10');
    const plain = readObjects(readProjectFile('ops/kubernetes/autoscaling.yaml'));
    assert.deepEqual(ofKind(rendered, 'HorizontalPodAutoscaler'), ofKind(plain, 'HorizontalPodAutoscaler'));
  });

  test('asks for nothing that the restricted profile refuses, at the seat belt', async () => {
    for (const { spec } of ofKind(await render('--set', 'sandbox=seat-belt'), 'Deployment')) {
      const pod = spec.template.spec;
      assert.equal(pod.securityContext.seccompProfile.type, 'RuntimeDefault');
      assert.equal(pod.securityContext.appArmorProfile, undefined);
      assert.equal(pod.containers[0].securityContext.procMount, undefined);
    }
  });

  test('refuses a store and a sandbox that it does not know, and nodes without their secrets', async () => {
    await assert.rejects(
      render('--set', 'store=mysql'),
      /store: found "mysql", expected postgres or embedded/,
    );
    await assert.rejects(
      render('--set', 'sandbox=none'),
      /sandbox: found "none", expected kernel or seat-belt/,
    );
    await assert.rejects(
      render('--set', 'publicUrl=https://hooks.example.org'),
      /publicUrl and ingress\.host: found "https:\/\/hooks\.example\.org" and "millrace\.example\.com", expected the same host/,
    );
    await assert.rejects(
      render('--set', 'secrets.database=null'),
      /secrets\.database: a PostgreSQL needs its URL/,
    );
    await assert.rejects(
      render('--set', 'parts.worker.roles={scheduler}'),
      /parts: no part has the role worker/,
    );
  });
});

function byName(objects: readonly KubernetesObject[]): Map<string, KubernetesObject> {
  const named = objects.map((object) => [`${object.kind} ${object.metadata.name}`, object] as const);
  return new Map(named.sort(([one], [other]) => one.localeCompare(other)));
}

/** What holds for every set of objects that belong together. */
function checkObjects(objects: readonly KubernetesObject[]): void {
  const deployments = ofKind(objects, 'Deployment');
  for (const deployment of deployments) checkPod(deployment.spec.template, objects);
  const configs = ofKind(objects, 'ConfigMap').map(({ data = {} }) => data);
  for (const name of configs.flatMap((data) => Object.keys(data)).filter((key) => key !== 'rules'))
    assert.ok(settingNames.has(name), `the setting ${name}`);
  for (const { spec, kind, metadata } of objects) {
    if (kind === 'PodDisruptionBudget') checkBudget(spec, deployments);
    if (kind === 'HorizontalPodAutoscaler') checkAutoscaler(spec, deployments);
    if (kind === 'Service') {
      const taken = deployments.filter((one) => selects(spec.selector, one.spec.template.metadata.labels));
      assert.ok(taken.length > 0, `the service ${metadata.name} has pods`);
    }
    if (kind === 'Ingress') {
      const { name, port } = spec.rules[0].http.paths[0].backend.service;
      const service = ofKind(objects, 'Service').find((one) => one.metadata.name === name);
      assert.ok(service?.spec.ports.some((one: { name: string }) => one.name === port.name));
    }
  }
  if (deployments.length > 0) checkRoles(deployments, configs);
}

function checkPod(
  template: { metadata: { labels: Record<string, string> }; spec: PodSpec },
  objects: readonly KubernetesObject[],
) {
  const { spec } = template;
  const [container] = spec.containers;
  assert.ok(container);
  const [, user] = /^USER (\d+):\1$/m.exec(containerfile) ?? [];
  const { runAsNonRoot, runAsUser, runAsGroup, fsGroup, seccompProfile, appArmorProfile } =
    spec.securityContext;
  assert.deepEqual(
    [runAsNonRoot, String(runAsUser), String(runAsGroup), String(fsGroup)],
    [true, user, user, user],
  );
  assert.equal(spec.automountServiceAccountToken, false);
  const context = container.securityContext;
  assert.deepEqual(
    [context.readOnlyRootFilesystem, context.allowPrivilegeEscalation, context.capabilities],
    [true, false, { drop: ['ALL'] }],
  );
  // The four lines that the kernel level needs are there together, or none of them.
  const walls = { hostUsers: spec.hostUsers, profile: appArmorProfile?.type, procMount: context.procMount };
  assert.deepEqual(
    walls,
    seccompProfile.type === 'Unconfined'
      ? needsWalls
      : { hostUsers: undefined, profile: undefined, procMount: undefined },
  );
  assert.ok(
    container.ports.some(
      ({ name, containerPort }) => name === 'http' && containerPort === settingDefinitions.port.default,
    ),
  );
  assert.match(containerfile, new RegExp(`^EXPOSE ${settingDefinitions.port.default}$`, 'm'));
  for (const [probe, path] of [
    ['startupProbe', '/healthz'],
    ['livenessProbe', '/healthz'],
    ['readinessProbe', '/readyz'],
  ] as const)
    assert.deepEqual(container[probe].httpGet, { path, port: settingDefinitions.port.default });
  for (const { name } of container.env ?? []) assert.ok(settingNames.has(name), `the setting ${name}`);
  for (const { configMapRef } of container.envFrom ?? [])
    assert.ok(ofKind(objects, 'ConfigMap').some(({ metadata }) => metadata.name === configMapRef.name));
  const mounts = new Map(container.volumeMounts.map(({ name, mountPath }) => [name, mountPath]));
  assert.match(containerfile, new RegExp(`^VOLUME ${mounts.get('data')}$`, 'm'));
  assert.ok(mounts.has('tmp'), 'a root that is read-only needs a /tmp');
  assert.deepEqual([...mounts.keys()].sort(), spec.volumes.map(({ name }) => name).sort());
  checkSecrets(spec, objects);
}

/** Each setting that is read from a file has its file, and each file its setting. Nothing of a secret is in the environment. */
function checkSecrets(spec: PodSpec, objects: readonly KubernetesObject[]): void {
  const [container] = spec.containers;
  for (const { valueFrom } of container?.env ?? []) assert.equal(valueFrom?.secretKeyRef, undefined);
  const folder = container?.volumeMounts.find(({ name }) => name === 'secrets')?.mountPath;
  const projected = spec.volumes.find(({ name }) => name === 'secrets')?.projected;
  const files = (projected?.sources ?? []).flatMap(({ secret }) =>
    secret.items.map(({ path }) => `${folder}/${path}`),
  );
  const wanted = ofKind(objects, 'ConfigMap').flatMap(({ data = {} }) =>
    Object.entries(data).flatMap(([name, value]) => (name.endsWith('_FILE') ? [value] : [])),
  );
  assert.deepEqual(wanted.sort(), files.sort());
  if (projected !== undefined) assert.equal(projected.defaultMode, 0o440);
}

function checkBudget(
  spec: { minAvailable: number; selector: { matchLabels: Record<string, string> } },
  deployments: readonly KubernetesObject[],
) {
  const [only, ...others] = deployments.filter((one) =>
    selects(spec.selector.matchLabels, one.spec.template.metadata.labels),
  );
  assert.ok(only !== undefined && others.length === 0);
  assert.ok(spec.minAvailable < (only.spec.replicas ?? 2), 'a machine of the cluster can be emptied');
}

function checkAutoscaler(
  spec: {
    minReplicas: number;
    maxReplicas: number;
    scaleTargetRef: { name: string };
    metrics: { external?: { metric: { name: string } } }[];
  },
  deployments: readonly KubernetesObject[],
) {
  assert.ok(spec.minReplicas >= 1 && spec.minReplicas < spec.maxReplicas);
  assert.ok(spec.metrics.length > 0);
  for (const { external } of spec.metrics)
    if (external !== undefined)
      assert.ok(Object.hasOwn(metricDefinitions, external.metric.name), external.metric.name);
  const target = deployments.find(({ metadata }) => metadata.name === spec.scaleTargetRef.name);
  if (deployments.length > 0) assert.ok(target !== undefined && target.spec.replicas === undefined);
}

/** Each role is somewhere, the settings are such that the service starts with them, and requests reach those that serve. */
function checkRoles(
  deployments: readonly KubernetesObject[],
  configs: readonly Record<string, string>[],
): void {
  const found = new Set<string>();
  for (const { spec } of deployments) {
    const env: { name: string; value: string }[] = spec.template.spec.containers[0].env ?? [];
    const own = Object.fromEntries(env.map(({ name, value }) => [name, value]));
    const all = Object.assign({}, ...configs, own) as Record<string, string>;
    const plain = Object.entries(all).filter(([name]) => !name.endsWith('_FILE'));
    const settings = readSettings(Object.fromEntries(plain));
    for (const role of settings.roles) found.add(role);
    const serves = spec.template.metadata.labels.serves === 'true';
    if (serves) assert.ok(settings.roles.includes('api') && settings.roles.includes('ingress'));
  }
  assert.deepEqual([...found].sort(), allRoles);
}

interface PodSpec {
  automountServiceAccountToken: boolean;
  hostUsers?: boolean;
  securityContext: {
    runAsNonRoot: boolean;
    runAsUser: number;
    runAsGroup: number;
    fsGroup: number;
    seccompProfile: { type: string };
    appArmorProfile?: { type: string };
  };
  containers: {
    env?: { name: string; valueFrom?: { secretKeyRef?: object } }[];
    envFrom?: { configMapRef: { name: string } }[];
    ports: { name: string; containerPort: number }[];
    securityContext: {
      readOnlyRootFilesystem: boolean;
      allowPrivilegeEscalation: boolean;
      capabilities: object;
      procMount?: string;
    };
    volumeMounts: { name: string; mountPath: string }[];
    startupProbe: Probe;
    livenessProbe: Probe;
    readinessProbe: Probe;
  }[];
  volumes: {
    name: string;
    projected?: { defaultMode: number; sources: { secret: { items: { path: string }[] } }[] };
  }[];
}
interface Probe {
  httpGet: { path: string; port: number };
}
