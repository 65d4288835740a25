/** The program that runs in a sandboxed process: starts, loads bundles, and runs calls until it is killed. */

import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type AnswerHeader,
  type CallHeader,
  encodeFrame,
  frameType,
  type InitHeader,
  type LoadHeader,
  PayloadReader,
  type ReleaseHeader,
  type StepHeader,
  type UncaughtHeader,
  type UnloadHeader,
} from '#runner/protocol.ts';
import { hasAddedApps, withAddedApps } from './added-apps.ts';
import { addError, CallEffects } from './call-effects.ts';
import { runStep } from './call-step.ts';
import { Channel } from './channel.ts';
import { askOptions, definitionAmong, type OptionsRequest, usableDefinitions } from './component-options.ts';
import { captureConsole } from './console-capture.ts';
import { shareEnvironment, sourceEnvironment, stepEnvironment } from './deployment-environment.ts';
import { DeploymentPlace } from './deployment-place.ts';
import { describeComponent, unwrapComponent } from './describe-component.ts';
import { installEgressShim, trustExtraCa } from './egress-shim.ts';
import { reportError } from './error-report.ts';
import { eventNamesOf } from './event-names.ts';
import { syncIn } from './file-prop.ts';
import { giveHome } from './home-folder.ts';
import { HostCalls } from './host-calls.ts';
import { closeInheritedDescriptors } from './inherited-descriptors.ts';
import { toJsonText } from './json-text.ts';
import { forgetBundle, loadBundle } from './load-bundle.ts';
import type { MountedFiles } from './memory-mount.ts';
import { exitProcess, jsonParse, jsonStringify } from './primordials.ts';
import { probeSandbox } from './probe.ts';
import { publicProp, type ResolvedProp } from './prop-definitions.ts';
import { refuseFunctions } from './refused-functions.ts';
import { folderOfFolders, mapTmpTo, RunFolders } from './scratch-folder.ts';
import { StepProps } from './step-props.ts';
import { addUndefinedValues, DbSnapshot, makeUserContext, resolveAllProps } from './user-context.ts';

type Loose = Record<string, unknown>;

const egressDescriptor = 4;

const channel = new Channel();
const currentCall = new AsyncLocalStorage<CallEffects>();
const activeCalls = new Map<number, CallEffects>();

/** An evaluated bundle. */
interface LoadedModule {
  component: Loose;
  place: DeploymentPlace;
  /** Folder of its code in stack traces. */
  folder: string;
  /** Its props and the text of their values, from the last call that sent them. */
  props: [string, ResolvedProp][];
  valuesText: string;
  /** True when apps among `props` have no methods yet. */
  lacksApps: boolean;
  /** Created at the first call as a step. */
  stepProps: StepProps | undefined;
}

const hostCalls = new HostCalls(channel);
const modules = new Map<string, LoadedModule>();
/** Places of the deployments that have bundles here, by name. */
const places = new Map<string, DeploymentPlace>();

let limits: InitHeader['limits'];
let runFolders: RunFolders;
let scratch: string;
let mounted: MountedFiles | undefined;
/** True when bundles were unloaded and the process was not checked for code that still runs. */
let mayHaveLeftovers = false;

async function init(header: InitHeader, payload: Buffer): Promise<void> {
  limits = header.limits;
  const closed = closeInheritedDescriptors();
  // Bubblewrap sets it.
  delete process.env.PWD;
  if (header.probe?.bare !== true) refuseFunctions();
  if (header.memoryFiles !== undefined) {
    // Otherwise the program itself could still be read.
    if (header.packages === undefined) process.permission.drop('fs.read');
    const { mountMemoryFiles } = await import('./memory-mount.ts');
    mounted = mountMemoryFiles(header.memoryFiles);
  }
  scratch = header.scratch ?? mounted?.tmp ?? '/tmp';
  const report = header.probe === undefined ? undefined : await probeSandbox(scratch, header.probe);
  defineGlobals();
  giveHome();
  captureConsole(currentCall);
  await shareEnvironment(() => currentCall.getStore()?.place);
  runFolders = new RunFolders(scratch);
  mapTmpTo(
    scratch,
    () => {
      const call = currentCall.getStore();
      return call?.step === undefined ? call?.place.folder : runFolders.of(call.step);
    },
    header.packages,
  );
  installEgressShim(egressDescriptor, () => currentCall.getStore()?.id);
  if (payload.length > 0) trustExtraCa(payload.toString('utf8'));
  catchTheUncaught();
  channel.postNow(encodeFrame(frameType.ready, 0, jsonStringify({ closed, report })));
  if (header.prewarmAfterMs !== undefined) prewarming = setTimeout(prewarm, header.prewarmAfterMs);
}

/** Old components and type helpers wrap their definition in one of these functions. */
function defineGlobals(): void {
  for (const name of ['defineComponent', 'defineSource', 'defineAction', 'defineApp']) {
    Object.defineProperty(globalThis, name, {
      value: (definition: unknown) => definition,
      writable: true,
      configurable: true,
    });
  }
}

let prewarming: NodeJS.Timeout | undefined;

/** Loads the HTTP clients, because the first use of fetch costs 40 ms. Only a process that no call waits for does this. */
function prewarm(): void {
  void [fetch, Headers, Request, Response, FormData, Blob, URL, AbortController, TextDecoder];
  new Request('http://localhost/', { headers: new Headers({ a: 'b' }) });
  for (const name of [
    'node:http',
    'node:https',
    'node:tls',
    'node:crypto',
    'node:stream/promises',
    'node:zlib',
    'node:url',
  ]) {
    process.getBuiltinModule(name);
  }
}

/** Maximum reported errors of no running call, so that a timer that throws repeatedly does not flood the service. */
const unattributedErrorsMax = 10;

/**
 * Reports uncaught errors. An error belongs to the call of its code. When that call has ended, no other is to blame, and the error is reported
 * as one of no call. In both cases the service replaces the process.
 */
function catchTheUncaught(): void {
  let unattributedErrors = 0;
  const report = (thrown: unknown): void => {
    const call = currentCall.getStore();
    const running = call === undefined || call.ended ? undefined : call;
    if (running === undefined) {
      unattributedErrors += 1;
      if (unattributedErrors > unattributedErrorsMax) return;
    }
    const error = reportError(thrown);
    if (running !== undefined) {
      running.fail(thrown);
      activeCalls.delete(running.id);
    }
    const header: UncaughtHeader = {};
    if (call !== undefined) header.deploymentId = call.place.deploymentId;
    const payload: (string | Uint8Array)[] = [];
    const bytes = addError(header, payload, error);
    channel.postNow(encodeFrame(frameType.uncaught, running?.id ?? 0, jsonStringify(header), payload, bytes));
  };
  process.on('uncaughtException', report);
  process.on('unhandledRejection', report);
  process.on('exit', () => {
    for (const call of activeCalls.values()) call.flush();
    currentCall.getStore()?.tellExit();
    channel.flush();
  });
}

async function load(id: number, header: LoadHeader, payload: Buffer): Promise<void> {
  clearTimeout(prewarming);
  const { format, module, packageFiles, variablesBytes = 0 } = header;
  const listEnd = payload.length - variablesBytes;
  const codeBytes = listEnd - (packageFiles?.listBytes ?? 0);
  const place = placeOf(header, payload.toString('utf8', listEnd));
  const folder = `/component/${module}`;
  const effects = startCall(id, place);
  await currentCall.run(effects, async () => {
    try {
      const packages =
        packageFiles === undefined
          ? header.packages
          : mounted?.packagesFolder(packageFiles.id, payload.subarray(codeBytes, listEnd));
      const exported = await loadBundle(payload.toString('utf8', 0, codeBytes), { format, folder, packages });
      const component = unwrapComponent(exported);
      const props = resolveAllProps(component, {});
      modules.set(module, {
        ...{ component, place, folder, props, valuesText: '{}' },
        lacksApps: false,
        stepProps: undefined,
      });
      effects.finishWithText(undefined);
    } catch (error) {
      effects.fail(error, 'load_failed');
    }
  });
  activeCalls.delete(id);
}

function placeOf({ place: name, deploymentId, isStep }: LoadHeader, variablesText: string): DeploymentPlace {
  const known = places.get(name);
  if (known !== undefined) return known;
  const environment =
    isStep === true
      ? stepEnvironment(
          () => currentCall.getStore()?.step,
          variablesText === '' ? {} : (jsonParse(variablesText) as Record<string, string>),
        )
      : sourceEnvironment(deploymentId);
  const place = new DeploymentPlace(name, { deploymentId, base: folderOfFolders(scratch), environment });
  places.set(name, place);
  return place;
}

/** Forgets bundles. Their code is freed when nothing refers to it. */
function unload({ modules: names }: UnloadHeader): void {
  const left = new Set<DeploymentPlace>();
  for (const name of names) {
    const module = modules.get(name);
    if (module === undefined) continue;
    modules.delete(name);
    forgetBundle(module.folder);
    left.add(module.place);
  }
  for (const { place } of modules.values()) left.delete(place);
  for (const [name, place] of places) {
    if (!left.has(place)) continue;
    places.delete(name);
    place.remove();
  }
  mayHaveLeftovers = true;
  lookForLeftovers();
}

/** Reports code of unloaded bundles that still runs: without a call, only a timer or the like keeps the process active. */
function lookForLeftovers(): void {
  if (!mayHaveLeftovers || activeCalls.size > 0) return;
  mayHaveLeftovers = false;
  if (process.getActiveResourcesInfo().some((name) => name === 'Timeout' || name === 'Immediate'))
    channel.postNow(encodeFrame(frameType.leftover, 0, ''));
}

function startCall(id: number, place: DeploymentPlace): CallEffects {
  const effects = new CallEffects(id, { channel, limits, place });
  activeCalls.set(id, effects);
  return effects;
}

async function call(id: number, header: CallHeader, payload: Buffer): Promise<void> {
  const module = modules.get(header.module);
  // The service calls only bundles that it has loaded. Forged frames may have misled it about that.
  if (module === undefined) return exitProcess(1);
  const effects = startCall(id, module.place);
  if (header.ack === 1) channel.postNow(encodeFrame(frameType.started, id, ''));
  try {
    const reader = new PayloadReader(payload);
    const texts = header.step === undefined ? undefined : takeStepTexts(header.step, reader);
    const eventText = reader.optionalText(header.event);
    const propsText = reader.optionalText(header.props);
    if (propsText !== undefined) takeProps(module, propsText);
    const db = new DbSnapshot(reader.optionalText(header.db), reader);
    const usesApps = header.step !== undefined || header.kind === 'run' || header.kind === 'hook';
    if (module.lacksApps && usesApps) await currentCall.run(effects, () => addApps(module, db, effects));
    if (header.step === undefined)
      await currentCall.run(effects, () => runCall(module, header, eventText, db, effects));
    else {
      const { step } = header;
      await currentCall.run(effects, () => callStep(module, step, texts ?? ['{}', '{}'], db, effects));
    }
  } catch (error) {
    effects.fail(error);
  }
  activeCalls.delete(id);
  lookForLeftovers();
}

/** Reads the texts of the earlier steps and of `$.context`. */
function takeStepTexts(header: StepHeader, reader: PayloadReader): [string, string] {
  return [reader.text(header.steps), reader.text(header.context)];
}

/** `text` is `[values, dynamic definitions]`. */
function takeProps(module: LoadedModule, text: string): void {
  const [values, dynamic] = jsonParse(text) as [Loose, Loose];
  module.props = resolveAllProps(module.component, dynamic);
  module.valuesText = jsonStringify(values);
  module.lacksApps = hasAddedApps(module.component, module.props);
  module.stepProps = undefined;
}

/** Calls `additionalProps` for the apps that it added, because only its result has their methods. */
async function addApps(module: LoadedModule, db: DbSnapshot, effects: CallEffects): Promise<void> {
  const { component, props, valuesText } = module;
  const hostCall = hostCalls.forCall(effects);
  const values = jsonParse(valuesText) as Loose;
  const context = makeUserContext({ component, props, values, db, effects, hostCall });
  const previous = publicProps(component.props);
  const returned = await additionalProps(component, addUndefinedValues(context, props, values), previous);
  // Another call has brought other props meanwhile.
  if (module.props !== props) return;
  module.props = withAddedApps(component, props, { returned, previous });
  module.lacksApps = false;
  module.stepProps = undefined;
}

function callStep(
  module: LoadedModule,
  header: StepHeader,
  [stepsText, contextText]: [string, string],
  db: DbSnapshot,
  effects: CallEffects,
): Promise<void> {
  const { component, props, valuesText } = module;
  module.stepProps ??= new StepProps(props, valuesText);
  return runStep({
    component,
    props,
    stepProps: module.stepProps,
    values: jsonParse(valuesText) as Loose,
    header,
    stepsText,
    context: jsonParse(contextText) as Loose,
    db,
    effects,
    hostCall: hostCalls.forCall(effects),
    replyBytesMax: limits.replyBytesMax,
  });
}

async function runCall(
  { component, props, valuesText }: LoadedModule,
  header: CallHeader,
  eventText: string | undefined,
  db: DbSnapshot,
  effects: CallEffects,
): Promise<void> {
  if (header.kind === 'describe') {
    try {
      const shape = describeComponent(component);
      effects.finishWithText(toJsonText(shape, limits.shapeBytesMax, 'the description of the component'));
    } catch (error) {
      effects.fail(describeFailure(error), 'load_failed');
    }
    return;
  }
  const values = jsonParse(valuesText) as Loose;
  const hostCall = hostCalls.forCall(effects);
  const context = makeUserContext({ component, props, values, db, effects, hostCall });
  const event = eventText === undefined ? undefined : jsonParse(eventText);
  switch (header.kind) {
    case 'hook': {
      const hooks = component.hooks as Loose | undefined;
      const hook = hooks?.[header.hook ?? ''];
      if (typeof hook === 'function') await hook.call(context);
      effects.finishWithText(undefined);
      return;
    }
    case 'run': {
      const run = component.run;
      if (typeof run !== 'function') {
        emitAsGiven(event, effects);
        effects.finishWithText(undefined);
        return;
      }
      const syncOut = await syncIn(props, values, hostCall);
      const returned: unknown = await run.call(context, event);
      await syncOut();
      effects.finish(returned, limits.resultBytesMax);
      return;
    }
    case 'additionalProps': {
      const previous = (event ?? {}) as Loose;
      addUndefinedValues(context, props, values);
      const returned = await additionalProps(component, context, previous);
      const answer = { props: publicProps(returned), previous: publicProps(previous) };
      effects.finishWithText(toJsonText(answer, limits.shapeBytesMax, 'the additional props'));
      return;
    }
    case 'options': {
      addUndefinedValues(context, props, values);
      const { previous, ...request } = event as OptionsRequest & { previous?: Loose };
      const exported = (component.props ?? {}) as Loose;
      let definition = exported[request.prop];
      let asked = { props, exported, values, context };
      if (previous !== undefined) {
        const returned = await additionalProps(component, context, previous);
        definition = definitionAmong(request.prop, returned, previous);
        const all = resolveAllProps(component, usableDefinitions(returned));
        const made = makeUserContext({ component, props: all, values, db, effects, hostCall });
        asked = { props: all, exported, values, context: addUndefinedValues(made, all, values) };
      }
      const answer = await askOptions(definition, request, asked);
      effects.finish(answer, limits.resultBytesMax, 'the list of options');
      return;
    }
    case 'eventNames': {
      const previous = (event ?? {}) as Loose;
      const names = await eventNamesOf({ component, props, context, previous });
      effects.finishWithText(toJsonText(names, limits.shapeBytesMax, 'the names of events'));
      return;
    }
    default:
      throw new Error(`unknown call ${String(header.kind)}`);
  }
}

/** Calls `additionalProps` of a component, which may also change `previous` in place. */
async function additionalProps(component: Loose, context: Loose, previous: Loose): Promise<unknown> {
  const { additionalProps } = component;
  return typeof additionalProps === 'function' ? additionalProps.call(context, previous) : {};
}

/** Emits the event that triggered a source without `run`, as scheduled sources without custom code do. */
function emitAsGiven(event: unknown, effects: CallEffects): void {
  const given = typeof event === 'object' && event !== null ? (event as Loose) : {};
  const seconds = typeof given.timestamp === 'number' ? given.timestamp : undefined;
  effects.emit(event ?? {}, {
    id: typeof given.id === 'string' || typeof given.id === 'number' ? given.id : seconds,
    summary: typeof given.summary === 'string' ? given.summary : undefined,
    ts: seconds === undefined ? undefined : seconds * 1000,
  });
}

function publicProps(definitions: unknown): Loose {
  const shown: Loose = {};
  if (typeof definitions !== 'object' || definitions === null) return shown;
  for (const name of Object.keys(definitions)) shown[name] = publicProp(name, (definitions as Loose)[name]);
  return shown;
}

function describeFailure(error: unknown): Error {
  const report = reportError(error);
  const wrapped = new TypeError(`the definition of the component cannot be read: ${report.message}`);
  wrapped.stack = report.stack;
  return wrapped;
}

channel.start((type, id, header, payload) => {
  switch (type) {
    case frameType.init:
      void init(header as InitHeader, payload);
      return;
    case frameType.load:
      void load(id, header as LoadHeader, payload);
      return;
    case frameType.call:
      void call(id, header as CallHeader, payload);
      return;
    case frameType.answer:
      hostCalls.settle(header as AnswerHeader, payload);
      return;
    case frameType.release:
      runFolders.release((header as ReleaseHeader).scratch);
      return;
    case frameType.unload:
      unload(header as UnloadHeader);
      return;
    case frameType.ping:
      channel.postNow(encodeFrame(frameType.pong, id, ''));
  }
});
