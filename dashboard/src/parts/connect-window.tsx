import { useMutation, useQuery } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useState } from 'react';
import type { ConnectAccountAnswer } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { listen, newFlow, returnAddress } from './connect-result.ts';
import { CopyButton } from './copy.tsx';
import { Loading } from './page.tsx';
import { Problem } from './problem.tsx';

/** The window reports the outcome. A window that was opened elsewhere cannot: then polling finds it. */
const lookEveryMs = 3_000;

/** Something by which a connection that was made is known, and the account that it is of. */
export interface Mark {
  id: string;
  accountId: string;
}

interface Waiting {
  flow: string;
  url: string;
  until: number;
  before: ReadonlySet<string>;
}

/** Opens the window in which the user consents at a provider, and waits for the result. */
export function ConnectWindow({
  label,
  body,
  marks,
  disabled = false,
  onDone,
}: {
  label: string;
  /** The body of POST /v1/accounts/connect. */
  body: Record<string, unknown>;
  /** Those there are: a new one is the connection that is waited for. */
  marks: () => Promise<Mark[]>;
  disabled?: boolean;
  onDone: (accountId: string) => void;
}) {
  const [waiting, setWaiting] = useState<Waiting>();
  const [problem, setProblem] = useState<string>();
  const begin = useMutation({
    mutationFn: async (opened: Window | null): Promise<Waiting> => {
      try {
        const flow = newFlow();
        const before = new Set((await marks()).map(({ id }) => id));
        const { connect_url: url, expires_at } = (
          await api<Data<ConnectAccountAnswer>>('POST', '/v1/accounts/connect', {
            body: { ...body, redirect_url: returnAddress(flow) },
          })
        ).data;
        if (opened !== null) {
          // Pages in the window, those of the provider too, could navigate this page elsewhere.
          opened.opener = null;
          opened.location.href = url;
        }
        return { flow, url, until: Date.parse(expires_at), before };
      } catch (error) {
        opened?.close();
        throw error;
      }
    },
    onMutate: () => {
      setProblem(undefined);
      setWaiting(undefined);
    },
    onSuccess: setWaiting,
  });

  const end = useEffectEvent((accountId: string | undefined, told: string | undefined) => {
    setWaiting(undefined);
    if (accountId === undefined) setProblem(told);
    else onDone(accountId);
  });
  useEffect(() => {
    if (waiting === undefined) return;
    return listen(waiting.flow, (result) => end(result.accountId, result.problem));
  }, [waiting]);

  const found = useQuery({
    queryKey: ['connected', waiting?.flow],
    queryFn: async () => {
      const made = (await marks()).find(({ id }) => waiting?.before.has(id) === false);
      return { accountId: made?.accountId, isLate: waiting !== undefined && Date.now() > waiting.until };
    },
    enabled: waiting !== undefined,
    refetchInterval: lookEveryMs,
    gcTime: 0,
  }).data;
  useEffect(() => {
    if (found?.accountId !== undefined) end(found.accountId, undefined);
    else if (found?.isLate === true) end(undefined, 'there was no consent within ten minutes');
  }, [found]);

  return (
    <>
      {begin.error !== null && <Problem error={begin.error} what="The window was not opened." />}
      {problem !== undefined && <Problem error={problem} what="No account was connected." />}
      <button
        type="button"
        className="button primary"
        disabled={disabled || begin.isPending}
        // Browsers open windows only during a click. The URL of the window is set later.
        onClick={() => begin.mutate(window.open('', '_blank', 'popup,width=560,height=760'))}
      >
        {begin.isPending ? 'One moment …' : label}
      </button>
      {waiting !== undefined && (
        <div className="below">
          <Loading what="Waiting for what is said in the other window" />
          <p className="muted">
            No window?{' '}
            <a href={waiting.url} target="_blank" rel="noreferrer">
              Open it
            </a>
            , or give the link to who signs in there: it is good for ten minutes, and once.
          </p>
          <p className="buttons">
            <CopyButton text={waiting.url} label="Copy the link" />
            <button type="button" className="button small" onClick={() => setWaiting(undefined)}>
              Stop waiting
            </button>
          </p>
        </div>
      )}
    </>
  );
}
