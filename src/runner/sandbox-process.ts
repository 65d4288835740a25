import { setPriority } from 'node:os';
import type { AddressPolicy } from '#egress/address-policy.ts';
import type { EgressDoor } from '#egress/egress-door.ts';
import { attachEgressRelay, type ConnectionShare, type EgressRelay } from '#egress/egress-relay.ts';
import { Deferred } from '#lib/deferred.ts';
import type { Logger } from '#lib/logger.ts';
import { bytesText } from '#lib/units.ts';
import type { HttpReply, UserCodeError } from './call-outcome.ts';
import { readError } from './call-record.ts';
import { type CallStart, CallsInFlight } from './calls-in-flight.ts';
import { niceness } from './cpu-shares.ts';
import { encodeCall } from './encode-call.ts';
import { CapPassedError } from './frame-fields.ts';
import { FrameWriter } from './frame-writer.ts';
import type { ProcessExit } from './launch-messages.ts';
import { LoadedModules } from './loaded-modules.ts';
import { NamespaceInit } from './namespace-init.ts';
import { PackageFileServer, type PackageFiles } from './package-file-server.ts';
import { answerAtEnd, type PendingCall, type ProcessEnd } from './pending-call.ts';
import { type CallAnswer, type EndReason, notStarted, serviceError } from './process-end.ts';
import { ProcessHostCalls } from './process-host-calls.ts';
import { threadsOf } from './process-memory.ts';
import { outOfMemory, ProcessWatchdog } from './process-watchdog.ts';
import {
  type CallHeader,
  type ExitingHeader,
  FrameParser,
  frameType,
  fromSandboxFrameBytesMax,
  fromSandboxTypes,
  type InitHeader,
  type LoadHeader,
  PayloadReader,
  ProtocolError,
  type ReleaseHeader,
  type UncaughtHeader,
  type UnloadHeader,
} from './protocol.ts';
import type { Bundle, CallOptions, CallRequest } from './runner.ts';
import type { RunnerLimits } from './runner-limits.ts';
import type { RunnerTimer } from './runner-timer.ts';
import { SignOfLife } from './sign-of-life.ts';
import type { SpawnedSandbox } from './spawn-sandbox.ts';

/** A bundle whose packages are ready. */
export type LoadableBundle = Pick<Bundle, 'code' | 'format'> & {
  /** Folder in which the process can read them. */
  packagesFolder?: string;
  /** Files that the process requests, where it can read none. */
  packageFiles?: PackageFiles;
};

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
const stderrTailCharacters = 4096;
/** Frames for calls that have ended. They are normal directly after a kill or cancel, and an attack in large numbers. */
const strayFramesMax = 1000;
/** Errors that belong to no call and are reported for one process. Further ones only count as stray frames. */
const unattributedErrorsMax = 10;
/** Much more than an error has after the program has cut it. */
const uncaughtBytesMax = 512 * 1024;
/** Maximum time from the exit of a process to the end of its streams. */
const streamsEndMs = 500;

/** One sandboxed process: sends and reads frames, checks the process, and kills it. It never throws because of what the process does. */
export class SandboxProcess {
  /** The process that runs user code. At the kernel level it is known when the process is ready. */
  pid: number | undefined;
  /** The report of the process when it was ready; undefined when it ended before. */
  readonly ready: Promise<Record<string, unknown> | undefined>;
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
  readonly #parser: FrameParser;
  readonly #sign: SignOfLife;
  /** The first process of the PID namespace, which ends after all others in it. */
  #init: NamespaceInit | undefined;
  #reason: EndReason | undefined;
  #reasonDetail = '';
  #gone = false;
  #retiring = false;
  #stderrTail = '';
  #rawBytes = 0;
  #strayFrames = 0;
  #unattributedErrors = 0;
  /** Calls that already had an `uncaught` frame. A second one for the same call breaks the protocol. */
  readonly #uncaughtCalls = new Set<number>();
  readonly #modules = new LoadedModules();
  readonly #hostCalls: ProcessHostCalls;
  readonly #packageFiles: PackageFileServer;
  /** The call that caused the end of the process. Undefined when that is not known, or when no call did. */
  #culprit: PendingCall | undefined;
  /** True when code ended the process whose call had ended. */
  #isStrayExit = false;

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
    this.#watchdog = new ProcessWatchdog({
      ...{ pid: () => this.pid, limits, calls: this.#calls, ping },
    });
    this.ready = this.#ready.promise;
    this.ended = this.#ended.promise;
    this.#parser = new FrameParser(fromSandboxTypes, fromSandboxFrameBytesMax, (type, id, header, payload) =>
      this.#onFrame(type, id, header, payload),
    );
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
    this.#hostCalls = new ProcessHostCalls((header, body) => this.#sendAnswer(header, body), options.logger);
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
    return !this.#gone && !this.#retiring && this.#reason === undefined;
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
    const header: LoadHeader = { deploymentId, place, module: name, format: bundle.format };
    if (isStep) header.isStep = true;
    if (bundle.packagesFolder !== undefined)
      header.packages = this.#sandbox.packagesInside(bundle.packagesFolder);
    const payload: Buffer[] = [Buffer.from(bundle.code)];
    if (bundle.packageFiles !== undefined) {
      const { id, list } = this.#packageFiles.add(bundle.packageFiles);
      header.packageFiles = { id, listBytes: list.length };
      payload.push(list);
    }
    if (isStep && Object.keys(variables).length > 0) {
      const text = Buffer.from(JSON.stringify(variables));
      header.variablesBytes = text.length;
      payload.push(text);
    }
    const answer = this.#start({
      ...{ deploymentId, deadlineMs: this.#limits.loadDeadlineMs },
      ...{ isLoad: true, ack: false },
    });
    const bytes = payload.reduce((sum, { length }) => sum + length, 0);
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
  call(module: string, request: CallRequest, options: CallOptions = {}): Promise<CallAnswer> {
    this.callsTaken += 1;
    const { deploymentId, deadlineMs } = request;
    const ack = this.#sign.quietForMs > quietMs;
    const isStep = request.call.kind === 'step';
    const answer = this.#start({ deploymentId, deadlineMs, isLoad: false, isStep, ack, ...options });
    this.#sendCall(answer.id, module, request, ack);
    return answer.promise;
  }

  #sendCall(id: number, module: string, request: CallRequest, ack: boolean): void {
    const withProps = this.#modules.takeProps(module, request);
    const { header, payload, bytes } = encodeCall(request, { module, ack, withProps });
    this.#frames.send(frameType.call, id, JSON.stringify(header), payload, bytes);
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

  get #hasPassedLimit(): boolean {
    return this.#reason === 'out_of_memory' || this.#reason === 'limit_exceeded';
  }

  /** Kills the process. Only SIGKILL: user code can ignore every other signal. */
  kill(reason: EndReason, detail = '', culprit?: PendingCall): void {
    if (this.#gone) return;
    if (this.#reason === undefined) {
      this.#reason = reason;
      this.#reasonDetail = detail;
      this.#culprit ??= culprit;
    }
    this.#sandbox.launched.kill();
    this.#init?.kill();
  }

  get endReason(): EndReason | undefined {
    return this.#reason;
  }

  /** Called every `memoryPollMs` while calls are in flight, and less often when none are. */
  watch(residentBytes: number | undefined): void {
    const verdict = this.#watchdog.look(residentBytes);
    if (verdict !== undefined) this.kill(verdict.reason, verdict.detail);
  }

  /** Sets the lower or the usual priority for user code. False where the system does not allow to raise it again. */
  beGreedy(isGreedy: boolean): boolean {
    if (this.pid === undefined || this.#gone) return true;
    const threads = threadsOf(this.pid);
    return threads
      .map((thread) => beNice(thread, isGreedy ? niceness.greedy : niceness.usual))
      .every(Boolean);
  }

  #listen(): void {
    const { streams, ended, pid } = this.#sandbox.launched;
    streams.rpc.on('data', (chunk: Buffer) => this.#onBytes(chunk));
    streams.stdout.on('data', (chunk: Buffer) => this.#onRaw(chunk));
    streams.stderr.on('data', (chunk: Buffer) => {
      this.#stderrTail = (this.#stderrTail + chunk.toString('latin1')).slice(-stderrTailCharacters);
      this.#onRaw(chunk);
    });
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
    beNice(pid);
  }

  #onReady(header: unknown): void {
    const pids = this.#sandbox.findPids();
    if (pids === undefined) {
      this.kill('boot_failed', 'the process of the program was not found');
      return;
    }
    this.pid = pids.node;
    if (pids.init !== undefined) {
      this.#init = new NamespaceInit(pids.init);
      // Threads inherit the niceness of the thread that starts them, and some may have started before it was set.
      for (const thread of threadsOf(pids.node)) beNice(thread);
    }
    this.#ready.resolve(typeof header === 'object' && header !== null ? { ...header } : {});
  }

  #onRaw(chunk: Buffer): void {
    this.#rawBytes += chunk.length;
    if (this.#rawBytes > this.#limits.rawOutputBytesMax) {
      this.kill(
        'limit_exceeded',
        `more than ${bytesText(this.#limits.rawOutputBytesMax)} were written to stdout and stderr`,
      );
    }
  }

  #onBytes(chunk: Buffer): void {
    if (this.#gone || this.#reason === 'protocol') return;
    try {
      this.#parser.push(chunk);
    } catch (error) {
      if (error instanceof CapPassedError) this.kill('limit_exceeded', error.message, this.#frameOf);
      else if (error instanceof ProtocolError) this.kill('protocol', error.message);
      else throw error;
    }
  }

  /** The call whose frame is being read. */
  #frameOf: PendingCall | undefined;

  #onFrame(type: number, id: number, header: unknown, payload: Buffer): void {
    this.#sign.heard();
    this.#frameOf = undefined;
    if (type === frameType.ready) {
      this.#onReady(header);
      return;
    }
    if (type === frameType.pong) {
      this.#watchdog.ponged();
      return;
    }
    const pending = this.#calls.get(id);
    this.#frameOf = pending;
    if (type === frameType.leftover) {
      this.onLeftover?.();
      return;
    }
    if (type === frameType.exiting && id === 0) {
      const { deploymentId } = (header ?? {}) as ExitingHeader;
      const culprit = this.#modules.deploymentNamed(deploymentId);
      this.#isStrayExit = culprit !== undefined;
      if (culprit !== undefined) this.onStrayExit?.(culprit);
      return;
    }
    if (type === frameType.uncaught) {
      this.#onUncaught(id, pending, header, payload);
      return;
    }
    if (pending === undefined) {
      if (id === 0) throw new ProtocolError('a frame belongs to no call');
      this.#countStray(id);
      if (type === frameType.hostCall) this.#takeHostCall(id, header, payload, undefined);
      return;
    }
    pending.unstartedTicks = undefined;
    switch (type) {
      case frameType.effects: {
        const reader = new PayloadReader(payload);
        pending.record.addEffects(header, reader);
        reader.end();
        return;
      }
      case frameType.respond: {
        const reply = pending.record.addReply(header, payload);
        if (reply !== undefined) this.#tellReply(pending, reply);
        return;
      }
      case frameType.done:
        // The deadline or a limit decided first, and the kill follows.
        if (pending.decided !== undefined || this.#hasPassedLimit) return;
        this.#answer(
          id,
          pending,
          pending.record.done(header, new PayloadReader(payload), this.#calls.elapsedMs(pending)),
        );
        return;
      case frameType.hostCall:
        this.#takeHostCall(id, header, payload, pending.onHostCall);
        return;
      case frameType.refresh:
        this.#calls.refreshDeadline(id, pending);
        return;
      case frameType.exiting:
        this.#culprit ??= pending;
    }
  }

  #takeHostCall(id: number, header: unknown, payload: Buffer, onHostCall: CallOptions['onHostCall']): void {
    // The process is ending, and would not read the answer.
    if (this.#reason !== undefined) return;
    if (this.backlogBytes > this.#limits.hostCallBacklogBytesMax)
      throw new CapPassedError('the process makes requests to the service without reading the answers');
    this.#hostCalls.take(id, header, payload, onHostCall);
  }

  #tellReply(pending: PendingCall, reply: HttpReply): void {
    try {
      pending.onRespond?.(reply);
    } catch (error) {
      this.#logger.error({ err: error }, 'runner.reply-receiver-failed');
    }
  }

  #countStray(id: number): void {
    if (!this.#calls.wasMade(id))
      throw new ProtocolError(`a frame belongs to call ${id}, which was never made`);
    this.#strayFrames += 1;
    if (this.#strayFrames > strayFramesMax)
      throw new ProtocolError('too many frames belong to calls that have ended');
  }

  #onUncaught(id: number, pending: PendingCall | undefined, header: unknown, payload: Buffer): void {
    if (payload.length > uncaughtBytesMax) throw new ProtocolError('an error is larger than one can be');
    if (pending === undefined) {
      this.#countStray(id);
      if (id === 0) this.#unattributedErrors += 1;
    }
    if (id !== 0) {
      if (this.#uncaughtCalls.has(id)) throw new ProtocolError(`call ${id} failed twice`);
      this.#uncaughtCalls.add(id);
    }
    if (pending !== undefined || (id === 0 && this.#unattributedErrors <= unattributedErrorsMax)) {
      const reader = new PayloadReader(payload);
      const { error: lengths, deploymentId } = (header ?? {}) as UncaughtHeader;
      const error = readError(lengths, reader);
      reader.end();
      // The error itself is not logged: its texts are the component's, and may hold secrets that only its source knows.
      this.#logger.info({ pid: this.pid, callId: id }, 'runner.uncaught-reported');
      // The harness has ended the call itself. For a forged frame, the call ends here.
      if (pending !== undefined)
        this.#answer(id, pending, pending.record.end('threw', error, this.#calls.elapsedMs(pending)));
      else this.#tellUnattributed(error, deploymentId);
    }
    this.retire();
    this.onFault?.();
  }

  /** Reports an error to the deployment of its code. The process can only name a deployment that has code in it. */
  #tellUnattributed(error: UserCodeError, named: unknown): void {
    const deploymentId = this.#modules.deploymentNamed(named);
    if (deploymentId === undefined) return;
    try {
      this.onUnattributedError?.(error, deploymentId);
    } catch (cause) {
      this.#logger.error({ err: cause }, 'runner.error-receiver-failed');
    }
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
    if (code === null && signal === null && this.#reason === undefined) {
      // The launcher has ended, so no code is to blame.
      this.#reason = 'cancelled';
      this.#reasonDetail = 'the service lost the process';
    }
    if (this.#reason === undefined && /out of memory|Allocation failed|OOM/i.test(this.#stderrTail)) {
      const { reason, detail } = outOfMemory(this.#limits);
      this.#reason = reason;
      this.#reasonDetail = detail;
    }
    if (this.#reason === undefined) {
      const how = signal === null ? `with code ${code}` : `by ${signal}`;
      this.#reasonDetail = `the process ended ${how}`;
      this.#logger.info({ pid: this.pid ?? this.#sandbox.launched.pid, code, signal }, 'runner.exited');
    } else if (this.#reason !== 'retired' && this.#reason !== 'closing') {
      // Ends for these two reasons are normal: the process was no longer needed.
      this.#logger.info({ pid: this.pid, reason: this.#reason, detail: this.#reasonDetail }, 'runner.killed');
    }
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
    const end: ProcessEnd = {
      reason: this.#reason,
      detail: this.#reasonDetail || 'the process was ended',
      culprit: this.#culprit,
      isStray: this.#culprit === undefined && this.#reason === undefined && this.#isStrayExit,
      shared: started.length > 1 || this.#modules.hasSeveralDeployments,
      atMs: this.#timer.nowMs(),
    };
    for (const [id, pending] of calls) this.#answer(id, pending, answerAtEnd(pending, end));
  }

  /** The last output on stderr, which helps to find the reason of a failed start. */
  get stderrTail(): string {
    return this.#stderrTail;
  }
}

/** Sets the niceness of one thread, which the threads that it starts inherit. False where the system does not allow it. */
function beNice(thread: number, value = niceness.usual): boolean {
  try {
    setPriority(thread, value);
    return true;
  } catch (error) {
    // Any other error means that the thread has ended. The exit of the process follows.
    return (error as { info?: { code?: string } }).info?.code !== 'EACCES';
  }
}
