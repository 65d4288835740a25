/** Runs the actions of `components/` as steps, in a real sandbox. */
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { AddressPolicy } from '#egress/address-policy.ts';
import type { StepFlow } from '#runner/call-outcome.ts';
import type { CallOptions } from '#runner/runner.ts';
import { projectRoot } from './project-files.ts';
import { startRunnerFixture, stepCall, stepRequest } from './runner-fixture.ts';

/** What a step did, as far as tests of actions look at it. */
export interface ActionOutcome {
  exports: Record<string, unknown>;
  /** Undefined when the action threw. */
  ret: unknown;
  error: { name: string; message: string } | undefined;
  flow: StepFlow | undefined;
  /** Payloads of `$.send`, by kind. */
  sends: { kind: string; payload: unknown }[];
  reply: { status: number; headers: Record<string, unknown>; body: string } | undefined;
}

export interface ActionFixture {
  /** `key` of the action, and the values of its props. */
  run(key: string, props?: Record<string, unknown>, options?: CallOptions): Promise<ActionOutcome>;
  /** Its bundle, as text. */
  bundle(key: string): Promise<string>;
  close(): Promise<void>;
}

/** All actions of a fixture share one process. */
export async function startActionFixture(options: { extraCa?: string } = {}): Promise<ActionFixture> {
  const fixture = await startRunnerFixture({
    ...options,
    policy: new AddressPolicy({ allow: ['public', 'local'], deny: () => [] }),
  });
  const bundles = new Map<string, Promise<string>>();
  const bundle = (key: string) => {
    const known = bundles.get(key) ?? bundleAction(key);
    bundles.set(key, known);
    return known;
  };
  return {
    bundle,
    async run(key, props = {}, options = {}) {
      const place = { deploymentId: 'd_actions', module: key };
      const request = stepRequest(await bundle(key), { ...place, props, call: stepCall() });
      const outcome = await fixture.runner.call(request, options);
      const { step, error, response } = outcome;
      const exports = JSON.parse(step?.exports ?? '{}');
      return {
        exports,
        ret: exports.$return_value,
        error: error === undefined ? undefined : { name: error.name, message: error.message },
        flow: step?.flow,
        sends: (step?.sends ?? []).map(({ kind, payload }) => ({ kind, payload: JSON.parse(payload) })),
        reply: response && { ...response, body: Buffer.from(response.body).toString() },
      };
    },
    close: () => fixture.close(),
  };
}

async function bundleAction(key: string): Promise<string> {
  const [app, name] = [key.slice(0, key.indexOf('-')), key.slice(key.indexOf('-') + 1)];
  const [path] = globSync(`components/${app}/actions/${name}.ts`, { cwd: projectRoot });
  if (path === undefined) throw new Error(`there is no action ${key}`);
  const { outputFiles } = await build({
    entryPoints: [join(projectRoot, path)],
    bundle: true,
    platform: 'node',
    format: 'cjs',
    write: false,
    logLevel: 'silent',
  });
  return outputFiles[0]?.text ?? '';
}
