/** What requests of one interval came to. */
export interface RequestSummary {
  requests: number;
  /** Answered with 4xx: the callers' mistakes. */
  callerErrors: number;
  /** Answered with 5xx: ours. */
  serverErrors: number;
  slowest?: { ms: number; method: string; route: string };
}

export interface AnsweredRequest {
  method: string;
  /** The pattern, never the path. */
  route: string;
  status: number;
  ms: number;
  /** Open for as long as its reader stays, which says nothing about speed. */
  isStream: boolean;
}

/** Counts requests for one line of the log in place of one for each. */
export class RequestSummaries {
  #summary: RequestSummary = emptySummary();

  count({ method, route, status, ms, isStream }: AnsweredRequest): void {
    const summary = this.#summary;
    summary.requests += 1;
    if (status >= 500) summary.serverErrors += 1;
    else if (status >= 400) summary.callerErrors += 1;
    if (!isStream && ms >= (summary.slowest?.ms ?? 0)) summary.slowest = { ms, method, route };
  }

  /** What was counted since the last call; undefined when there was nothing. */
  take(): RequestSummary | undefined {
    const summary = this.#summary;
    this.#summary = emptySummary();
    return summary.requests === 0 ? undefined : summary;
  }
}

function emptySummary(): RequestSummary {
  return { requests: 0, callerErrors: 0, serverErrors: 0 };
}
