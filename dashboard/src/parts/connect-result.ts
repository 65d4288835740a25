/** The outcome of a connection, which its window sends to the page that opened it. */
export interface ConnectResult {
  /** Which of the pages that wait is meant. */
  flow: string;
  /** apn_…; undefined: it was not connected, and `problem` says why. */
  accountId: string | undefined;
  problem: string | undefined;
}

/**
 * Pages of this origin hear each other on it. The window cannot speak to its opener: pages of a provider may have cut that
 * tie. Nothing on it is trusted: the account is read from the API.
 */
const channelName = 'millrace-connect';

/** The last page of the provider's window. */
export function returnAddress(flow: string): string {
  return `${window.location.origin}/accounts/connected?flow=${flow}`;
}

/** Not crypto.randomUUID: browsers have that only under https and on localhost. */
export function newFlow(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');
}

/** The result in the parameters of `/accounts/connected`. */
export function resultIn(search: string): ConnectResult {
  const parameters = new URLSearchParams(search);
  const accountId = parameters.get('account_id') ?? '';
  const isAccount = /^apn_\w+$/.test(accountId);
  return {
    flow: parameters.get('flow') ?? '',
    accountId: isAccount ? accountId : undefined,
    problem: isAccount
      ? undefined
      : (parameters.get('error_description') ?? parameters.get('error') ?? 'the window was closed too early'),
  };
}

export function tell(result: ConnectResult): void {
  const channel = new BroadcastChannel(channelName);
  channel.postMessage(result);
  channel.close();
}

/** Returns a function that stops listening. */
export function listen(flow: string, hear: (result: ConnectResult) => void): () => void {
  const channel = new BroadcastChannel(channelName);
  channel.onmessage = ({ data }: MessageEvent<unknown>) => {
    const result = data as Partial<ConnectResult> | null;
    if (result?.flow !== flow) return;
    const accountId = typeof result.accountId === 'string' ? result.accountId : undefined;
    hear({ flow, accountId, problem: accountId === undefined ? String(result.problem) : undefined });
  };
  return () => channel.close();
}
