import type { AddressPolicy } from '#egress/address-policy.ts';
import type { EgressDoor } from '#egress/egress-door.ts';
import { attachEgressRelay, type ConnectionShare, type EgressRelay } from '#egress/egress-relay.ts';
import { Deferred } from '#lib/deferred.ts';
import type { Logger } from '#lib/logger.ts';
import { bytesText } from '#lib/units.ts';
import type { UserCodeError } from './call-outcome.ts';
import { type CallStart, CallsInFlight, type MovedBytes } from './calls-in-flight.ts';
import { encodeCall } from './encode-call.ts';
import { encodeLoad, type LoadableBundle } from './encode-load.ts';
import { EndCause } from './end-cause.ts';
import { FrameWriter } from './frame-writer.ts';
import { FramesFromSandbox, type FramesProcess } from './frames-from-sandbox.ts';
import type { ProcessExit } from './launch-messages.ts';
import { LoadedModules } from './loaded-modules.ts';
import { NamespaceInit } from './namespace-init.ts';
import { PackageFileServer } from './package-file-server.ts';
import { answerAtEnd, type PendingCall, type ProcessEnd } from './pending-call.ts';
import { ProcessCpu } from './process-cpu.ts';
import { type CallAnswer, type EndReason, notStarted, serviceError } from './process-end.ts';
import { ProcessHostCalls } from './process-host-calls.ts';
import { outOfMemory, ProcessWatchdog } from './process-watchdog.ts';
import {
  type CallHeader,
  frameType,
  type InitHeader,
  type ReleaseHeader,
  type UnloadHeader,
} from './protocol.ts';
import { RawOutput } from './raw-output.ts';
import type { CallOptions, CallRequest } from './runner.ts';
import type { RunnerLimits } from './runner-limits.ts';
import type { RunnerTimer } from './runner-timer.ts';
import { SignOfLife } from './sign-of-life.ts';
import type { SpawnedSandbox } from './spawn-sandbox.ts';

/** The place of a bundle among the others in a process. */
export interface ModulePlace {
  deploymentId: string;
  /** Names the environment and the `/tmp` of the deployment in the process. */
  place: string;
  /** True for a bundle of a workflow, whose environment holds the IDs of the run. */
  isStep: boolean;
  /** Environment variables of a workflow. */
  variables?: Readonly<Record<string, string>>;
}

/** After this idle time a process must confirm that it has begun a call. Before, its frames prove that it is responsive. */
const quietMs = 1;
/** Maximum time from the exit of a process to the end of its streams. */
const streamsEndMs = 500;

/** One sandboxed process: sends and reads frames, checks the process, and kills it. It never throws because of what the process does. */
export class SandboxProcess {
  /** The process that runs user code. At the kernel level it is known when the process is ready. */
  pid: number | undefined;
  /** The report of the process when it was ready; undefined when it ended before. */
  readonly ready: Promise<Record<string, unknown> | undefined>;
  readonly cpu: ProcessCpu;
  /** Resolves when the process has ended and every call has been answered. */
  readonly ended: Promise<void>;
  /** Called when the last call in flight has ended, and when the process accepts no further calls. */
  onIdle: (() => void) | undefined;
  onFault: (() => void) | undefined;
  /** Called with an error that belongs to no call, and the deployment of its code. */
  onUnattributedError: ((error: UserCodeError, deploymentId: string) => void) | undefined;
  /** Called when code that ended calls of this deployment left behind ends the process. */
  onStrayExit: ((deploymentId: string) => void) | undefined;
  /** Called when code that was unloaded still runs. */
  onLeftover: (() => void) | undefined;
  /** True: user code was sent to it. */
  hasCode = false;
  callsTaken = 0;
  /** Time of its timer. */
  lastUsedAtMs: number;

  readonly #sandbox: SpawnedSandbox;
  readonly #relay: EgressRelay;
  readonly #limits: RunnerLimits;
  readonly #logger: Logger;
  readonly #timer: RunnerTimer;
  readonly #ready = new Deferred<Record<string, unknown> | undefined>();
  readonly #ended = new Deferred<void>();
  readonly #calls: CallsInFlight;
  readonly #watchdog: ProcessWatchdog;
  readonly #frames: FrameWriter;
  readonly #received: FramesFromSandbox;
  readonly #sign: SignOfLife;
  /** The first process of the PID namespace, which ends after all others in it. */
  #init: NamespaceInit | undefined;
  readonly #cause = new EndCause();
  readonly #output: RawOutput;
  #gone = false;
  #retiring = false;
  readonly #modules = new LoadedModules();
  readonly #packageFiles: PackageFileServer;

  constructor(
    sandbox: SpawnedSandbox,
    options: {
      init: InitHeader;
      extraCa: string;
      policy: AddressPolicy;
      door?: EgressDoor;
      connectionShare?: ConnectionShare;
      limits: RunnerLimits;
      timer: RunnerTimer;
      logger: Logger;
    },
  ) {
    const { limits, extraCa } = options;
    this.#timer = options.timer;
    this.lastUsedAtMs = options.timer.nowMs();
    this.#sandbox = sandbox;
    this.cpu = new ProcessCpu(() => (this.#gone ? undefined : this.pid), sandbox.group);
    this.#limits = limits;
    this.#logger = options.logger;
    this.#frames = new FrameWriter(sandbox.launched.streams.rpc);
    const ping = () => this.#frames.send(frameType.ping, 0, '');
    this.#sign = new SignOfLife(options.timer, ping);
    this.#calls = new CallsInFlight({
      ...{ limits, timer: options.timer },
      onDeadline: (id, pending) => this.#passDeadline(id, pending),
      onCancel: (id, pending) => this.#cancel(id, pending),
    });
    this.#output = new RawOutput(sandbox.launched.streams, {
      bytesMax: limits.rawOutputBytesMax,
      onTooMuch: () =>
        this.kill(
          'limit_exceeded',
          `more than ${bytesText(limits.rawOutputBytesMax)} were written to stdout and stderr`,
        ),
    });
    this.#watchdog = new ProcessWatchdog({
      ...{ pid: () => this.pid, limits, calls: this.#calls, ping },
    });
    this.ready = this.#ready.promise;
    this.ended = this.#ended.promise;
    this.#relay = attachEgressRelay(sandbox.launched.streams.egress, {
      policy: options.policy,
      ...(options.door === undefined ? {} : { door: options.door }),
      maxConnections: limits.connectionsMax,
      ...(options.connectionShare === undefined ? {} : { share: options.connectionShare }),
      idleTimeoutMs: limits.connectionIdleTimeoutMs,
      connectTimeoutMs: limits.connectTimeoutMs,
      onRefused: (call) => this.#calls.named(call)?.onRefused?.(),
      onViolation: (reason) => this.kill('protocol', `on the way out: ${reason}`),
    });
    this.#received = new FramesFromSandbox({
      process: this.#forFrames(),
      ...{ calls: this.#calls, cause: this.#cause, modules: this.#modules, sign: this.#sign },
      watchdog: this.#watchdog,
      hostCalls: new ProcessHostCalls((header, body) => this.#sendAnswer(header, body), options.logger),
      backlogBytesMax: limits.hostCallBacklogBytesMax,
      logger: options.logger,
    });
    this.#packageFiles = new PackageFileServer(sandbox.launched.streams.files, (reason) =>
      this.kill('protocol', reason),
    );
    this.#listen();
    this.#frames.send(frameType.init, 0, JSON.stringify(options.init), [extraCa], Buffer.byteLength(extraCa));
    const bootDeadline = setTimeout(
      () => this.kill('boot_failed', 'not ready in time'),
      limits.bootDeadlineMs,
    );
    void this.ready.then(() => clearTimeout(bootDeadline));
  }

  /** True when no call is in flight or about to come. */
  get idle(): boolean {
    return this.#calls.count === 0 && this.#reservations === 0;
  }

  /**
   * Reserves the process for a call whose code is being evaluated, so that it is not idle and is not ended to make room. The caller calls the
   * returned function when the call was made, or will not be made.
   */
  reserve(): () => void {
    this.#reservations += 1;
    return () => {
      this.#reservations -= 1;
      this.#whenIdle();
    };
  }

  #reservations = 0;

  #whenIdle(): void {
    if (!this.idle) return;
    this.lastUsedAtMs = this.#timer.nowMs();
    if (this.#retiring) this.kill('retired');
    this.onIdle?.();
  }

  get callsInFlight(): number {
    return this.#calls.count;
  }

  callsInFlightOf(deploymentId: string): number {
    return this.#calls.countOf(deploymentId);
  }

  /** Bytes of calls that the process has not read. */
  get backlogBytes(): number {
    return this.#frames.backlogBytes;
  }

  /** False when it is ending or has ended, so that it must get no new call. */
  get usable(): boolean {
    return !this.#gone && !this.#retiring && this.#cause.reason === undefined;
  }

  get hasEnded(): boolean {
    return this.#gone;
  }

  hasModule(name: string): boolean {
    return this.#modules.has(name);
  }

  /** Evaluates a bundle once. Callers that need it meanwhile share the load. */
  load(name: string, bundle: LoadableBundle, at: ModulePlace): Promise<CallAnswer> {
    this.hasCode = true;
    return this.#modules.load(name, at.deploymentId, () => this.#load(name, bundle, at));
  }

  #load(
    name: string,
    bundle: LoadableBundle,
    { deploymentId, place, isStep, variables = {} }: ModulePlace,
  ): Promise<CallAnswer> {
    const { header, payload, bytes } = encodeLoad(bundle, {
      ...{ name, deploymentId, place, isStep, variables },
      packagesInside: (folder) => this.#sandbox.packagesInside(folder),
      addFiles: (files) => this.#packageFiles.add(files),
    });
    const answer = this.#start({
      ...{ deploymentId, deadlineMs: this.#limits.loadDeadlineMs },
      ...{ isLoad: true, ack: false },
    });
    this.#frames.send(frameType.load, answer.id, JSON.stringify(header), payload, bytes);
    return answer.promise;
  }

  /** True when the process can read this folder of packages. The folders are fixed when it starts. */
  mayRead(packagesFolder: string): boolean {
    return this.#sandbox.mayRead(packagesFolder);
  }

  /** Forgets bundles in which no call runs. If their code has left something behind, the process has to be replaced. */
  unload(names: readonly string[]): void {
    const known = this.#modules.remove(names);
    if (known.length === 0 || !this.usable) return;
    this.#frames.send(frameType.unload, 0, JSON.stringify({ modules: known } satisfies UnloadHeader));
  }

  describe(module: string): Promise<CallAnswer> {
    const header: CallHeader = { kind: 'describe', module, event: -1, props: -1, db: -1 };
    const deploymentId = this.#modules.deploymentOf(module);
    const answer = this.#start({
      ...{ deploymentId, deadlineMs: this.#limits.loadDeadlineMs },
      ...{ isLoad: true, ack: false },
    });
    this.#frames.send(frameType.call, answer.id, JSON.stringify(header));
    return answer.promise;
  }

  /** Calls a loaded bundle. */
  call(module: string, request: CallRequest, options: CallOptions & MovedBytes = {}): Promise<CallAnswer> {
    this.callsTaken += 1;
    const { deploymentId, deadlineMs } = request;
    const ack = this.#sign.quietForMs > quietMs;
    const isStep = request.call.kind === 'step';
    const answer = this.#start({ deploymentId, deadlineMs, isLoad: false, isStep, ack, ...options });
    options.onMoved?.(this.#sendCall(answer.id, module, request, ack));
    return answer.promise;
  }

  /** Returns the bytes of its payload. */
  #sendCall(id: number, module: string, request: CallRequest, ack: boolean): number {
    const withProps = this.#modules.takeProps(module, request);
    const { header, payload, bytes } = encodeCall(request, { module, ack, withProps });
    this.#frames.send(frameType.call, id, JSON.stringify(header), payload, bytes);
    return bytes;
  }

  /** Removes the folder of a run that was `/tmp` of calls with this name. */
  releaseScratch(scratch: string): void {
    if (!this.usable || !this.hasCode) return;
    this.#frames.send(frameType.release, 0, JSON.stringify({ scratch } satisfies ReleaseHeader));
  }

  #sendAnswer(header: string, body: Uint8Array | undefined): void {
    if (this.#gone) return;
    this.#frames.send(frameType.answer, 0, header, body === undefined ? [] : [body], body?.byteLength ?? 0);
  }

  #start(options: CallStart): { id: number; promise: Promise<CallAnswer> } {
    const id = this.#calls.newId();
    return { id, promise: this.#gone ? Promise.resolve(notStarted) : this.#calls.start(id, options) };
  }

  /** A deadline ends a shared process only when it is blocked. Otherwise the call is answered, and its code runs until the other calls have ended. */
  #passDeadline(id: number, pending: PendingCall): void {
    const { decided } = pending;
    if (decided === undefined) return;
    if (this.#calls.count > 1 && !this.#watchdog.isStuck) {
      this.#abandon(id, pending, decided);
      return;
    }
    // The call may have been ready to end, and waited for another one that keeps the process busy.
    decided.shared = this.#watchdog.isStuck && this.#calls.count > 1;
    this.kill('deadline', 'a call passed its deadline', pending);
  }

  /** User code can only be stopped by ending its process. Other calls in it may end first. */
  #cancel(id: number, pending: PendingCall): void {
    const error = serviceError('the call was cancelled', 'cancelled');
    if (this.#calls.count === 1) {
      pending.decided = { status: 'cancelled', error };
      this.kill('cancelled', 'its call was cancelled', pending);
    } else this.#abandon(id, pending, { status: 'cancelled', error });
  }

  /** Answers a call whose code still runs, in a process that then accepts no further calls. */
  #abandon(id: number, pending: PendingCall, { status, error }: NonNullable<PendingCall['decided']>): void {
    this.#answer(id, pending, pending.record.end(status, error, this.#calls.elapsedMs(pending)));
    this.retire();
    this.onFault?.();
    this.#watchdog.cancelledOneOfSeveral();
  }

  /** Ends the calls of a deployment as cancelled, and the process immediately if no other call runs in it. */
  forget(deploymentId: string): void {
    const error = serviceError('the deployment was ended', 'forgotten');
    if (this.#calls.countOf(deploymentId) === this.#calls.count) {
      for (const [, pending] of this.#calls.all) pending.decided = { status: 'cancelled', error };
      if (this.#calls.count > 0) this.kill('forgotten', 'the deployment was ended');
      return;
    }
    for (const [id, pending] of [...this.#calls.all])
      if (pending.deploymentId === deploymentId) this.#abandon(id, pending, { status: 'cancelled', error });
  }

  /**
   * Resolves to true when the process gives a sign of life within so many ms. A process without calls is assumed to be responsive, and so is
   * one that has just sent a frame.
   */
  responds(withinMs: number): true | Promise<boolean> {
    if (this.#calls.count === 0 || this.#sign.quietForMs <= quietMs) return true;
    return this.#sign.comesWithin(withinMs);
  }

  /** True when it was asked for a sign of life and has given none since. */
  get isBlocked(): boolean {
    return this.#sign.isMissing;
  }

  /** Accepts no further calls, and ends when those in flight have ended. */
  retire(): void {
    this.#retiring = true;
    if (this.idle) this.kill('retired');
  }

  /** Kills the process. Only SIGKILL: user code can ignore every other signal. */
  kill(reason: EndReason, detail = '', culprit?: PendingCall): void {
    if (this.#gone) return;
    this.#cause.set(reason, detail, culprit);
    this.#sandbox.launched.kill();
    this.#init?.kill();
  }

  get endReason(): EndReason | undefined {
    return this.#cause.reason;
  }

  /** Called every `memoryPollMs` while calls are in flight, and less often when none are. */
  watch(residentBytes: number | undefined, state: { isPaused: boolean }): void {
    const verdict = this.#watchdog.look(residentBytes, state);
    if (verdict !== undefined) this.kill(verdict.reason, verdict.detail);
  }

  #listen(): void {
    const { streams, ended } = this.#sandbox.launched;
    streams.rpc.on('data', (chunk: Buffer) => this.#received.push(chunk));
    const closed = Promise.all(
      Object.values(streams).map((stream) =>
        stream.closed ? undefined : new Promise((resolve) => stream.once('close', resolve)),
      ),
    );
    void ended.then((exit) => {
      const streamsEnd = setTimeout(() => this.#onGone(exit), streamsEndMs);
      void closed.then(() => {
        clearTimeout(streamsEnd);
        this.#onGone(exit);
      });
    });
  }

  /** What the frames of this process may do to it. The callbacks are read when they are called, since their owner sets them later. */
  #forFrames(): FramesProcess {
    return {
      pid: () => this.pid,
      isGone: () => this.#gone,
      backlogBytes: () => this.backlogBytes,
      onReady: (header) => this.#onReady(header),
      onFault: () => this.onFault?.(),
      onLeftover: () => this.onLeftover?.(),
      onStrayExit: (deploymentId) => this.onStrayExit?.(deploymentId),
      onUnattributedError: (error, deploymentId) => this.onUnattributedError?.(error, deploymentId),
      answer: (id, pending, answer) => this.#answer(id, pending, answer),
      retire: () => this.retire(),
      kill: (...end) => this.kill(...end),
    };
  }

  #onReady(header: unknown): void {
    const pids = this.#sandbox.findPids();
    if (pids === undefined) {
      this.kill('boot_failed', 'the process of the program was not found');
      return;
    }
    this.pid = pids.node;
    this.#sandbox.group?.take([pids.node, ...(pids.init === undefined ? [] : [pids.init])]);
    if (pids.init !== undefined) this.#init = new NamespaceInit(pids.init);
    this.cpu.beUsual();
    this.#ready.resolve(typeof header === 'object' && header !== null ? { ...header } : {});
  }

  #answer(id: number, pending: PendingCall, answer: CallAnswer): void {
    this.#calls.answer(id, pending, answer);
    this.#whenIdle();
  }

  #onGone(exit: ProcessExit): void {
    if (this.#gone) return;
    const { code, signal } = this.#sandbox.endOf(exit);
    this.#gone = true;
    this.#relay.close();
    for (const stream of Object.values(this.#sandbox.launched.streams)) stream.destroy();
    if (this.#sandbox.group?.ranOutOfMemory === true) {
      const { reason, detail } = outOfMemory(this.#limits);
      this.#cause.set(reason, detail);
    }
    this.#cause.conclude({ code, signal }, this.#output, this.#limits);
    const { reason, detail } = this.#cause;
    if (reason === undefined)
      this.#logger.info({ pid: this.pid ?? this.#sandbox.launched.pid, code, signal }, 'runner.exited');
    else if (!this.#cause.isNormal) this.#logger.info({ pid: this.pid, reason, detail }, 'runner.killed');
    this.#ready.resolve(undefined);
    this.#sign.end();
    this.#answerAll();
    this.onFault?.();
    void Promise.resolve(this.#init?.gone()).then(() => this.#ended.resolve());
  }

  #answerAll(): void {
    // Calls that the process never began go to another one, and are to blame for nothing.
    const calls = [...this.#calls.all];
    const started = calls.filter(([, pending]) => pending.unstartedTicks === undefined);
    const { reason, detail, culprit, isStrayExit } = this.#cause;
    const end: ProcessEnd = {
      reason,
      detail: detail || 'the process was ended',
      culprit,
      isStray: culprit === undefined && reason === undefined && isStrayExit,
      shared: started.length > 1 || this.#modules.hasSeveralDeployments,
      atMs: this.#timer.nowMs(),
    };
    for (const [id, pending] of calls) this.#answer(id, pending, answerAtEnd(pending, end));
  }

  /** The last output on stderr, which helps to find the reason of a failed start. */
  get stderrTail(): string {
    return this.#output.stderrTail;
  }
}
