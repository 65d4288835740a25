/** What every method takes last. */
export interface RequestOptions {
  /** Ends the request, and the waits between its attempts; the method then rejects with the signal's reason. */
  signal?: AbortSignal;
  /** For each attempt, answer included. Milliseconds; default that of the client. */
  timeoutMs?: number;
  /** Attempts after the first one; default that of the client. */
  retriesMax?: number;
  /**
   * Your word that doing this twice does no harm. Then it is tried again even if it is unknown whether the first attempt was
   * carried out. Reading, and writing that replaces, is known to be so; see README.md, "Trying again".
   */
  isRepeatable?: boolean;
  /**
   * Of a POST: a new random text, such as `crypto.randomUUID()`. The service carries the request out once, so every attempt is
   * safe; pass the same key to send the request again later, within 24 hours.
   */
  idempotencyKey?: string;
  /** Sent in addition to those of the client. */
  headers?: Readonly<Record<string, string>>;
  /** Called with the headers of each answer, before its body is read. */
  onHeaders?: (headers: Headers) => void;
}

/** What methods that open a live stream take last. */
export interface StreamOptions {
  /** Ends the stream: the iteration is then over, without an error. */
  signal?: AbortSignal;
  /** Where to resume: `lastEventId` of a message that was handled. Default: what is new from now on. */
  lastEventId?: string;
  /**
   * A connection on which nothing came for so long is given up and made again. Milliseconds; default 60,000. The service sends
   * something every 15 seconds.
   */
  idleTimeoutMs?: number;
  /** Attempts to connect in a row that may fail before the iteration throws; default 20, which are about eight minutes. */
  failuresMax?: number;
  /** Called whenever a connection stands, the first one included: what is emitted from then on comes. */
  onConnect?: () => void;
  /** Called before each wait for a new connection. What it throws ends the iteration, which throws it too. */
  onReconnect?: (about: {
    /** Undefined: the connection ended as connections do. */
    error: Error | undefined;
    /** Why the service ended the stream, where it said so. */
    endReason: string | undefined;
    waitMs: number;
    lastEventId: string | undefined;
  }) => void;
}
