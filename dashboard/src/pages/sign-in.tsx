import { useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { useLocation, useSearch } from 'wouter';
import { MillraceError } from '#sdk';
import { api } from '~/api/client.ts';
import { goToProvider, useSignInMethods } from '~/api/sign-in-queries.ts';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { forgetWork, remember, remembered } from '~/parts/remember.ts';
import { Brand } from '~/parts/shell.tsx';
import { ThemeSwitch } from '~/parts/theme.tsx';

/**
 * Sign-in with the provider that the operator set up, or with the API key of a user. The key goes to the service once, for a cookie that no
 * script can read, and is not kept here.
 */
export function SignIn() {
  const [, navigate] = useLocation();
  const next = safeNext(new URLSearchParams(useSearch()).get('next'));
  const queries = useQueryClient();
  const [key, setKey] = useState('');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  const field = useRef<HTMLInputElement>(null);
  const methods = useSignInMethods().data;
  const provider = methods?.single_sign_on ?? undefined;
  const isForAdmins = methods?.api_key === 'instance admins';
  const ended = remembered('signed-in') !== undefined && problem === undefined;
  useEffect(() => {
    document.title = 'Sign in · Millrace';
    // After a sign-out another user may be next. After the end of a session the drafts are kept.
    if (remembered('signed-in') === undefined) forgetWork();
    field.current?.focus();
  }, []);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(undefined);
    try {
      await api('POST', '/v1/session', { body: { api_key: key.trim() } });
    } catch (error) {
      setProblem(error);
      setBusy(false);
      field.current?.select();
      return;
    }
    remember('signed-in', '1');
    queries.clear();
    navigate(next, { replace: true });
  };

  const isWrong = problem instanceof MillraceError && problem.status === 401;
  return (
    <main className="alone">
      <div className="sign-in card">
        <Brand />
        <h1>Sign in</h1>
        {ended && (
          <p className="note" role="status">
            Your session has ended. Sign in again to continue.
          </p>
        )}
        {provider !== undefined && <ProviderButton provider={provider} returnTo={next} />}
        {provider !== undefined && (
          <p className="muted">
            {isForAdmins ? 'Admins of this instance can also use an API key:' : 'Or use an API key:'}
          </p>
        )}
        <form onSubmit={(event) => void submit(event)}>
          <label className="label" htmlFor="key">
            API key
          </label>
          <input
            ref={field}
            id="key"
            className="input"
            type="password"
            autoComplete="current-password"
            spellCheck={false}
            required
            maxLength={1024}
            value={key}
            onChange={(event) => setKey(event.target.value)}
            aria-invalid={isWrong || undefined}
            aria-describedby={isWrong ? 'wrong' : 'where'}
          />
          {isWrong ? (
            <p id="wrong" className="field-problem" role="alert">
              This is no API key of this service, or it was revoked. Look for spaces at its ends, or for a key
              of another service.
            </p>
          ) : (
            problem !== undefined && <Problem error={problem} />
          )}
          <button type="submit" className="button primary wide" disabled={busy || key.trim() === ''}>
            {busy ? 'Signing in …' : 'Sign in'}
          </button>
        </form>
        <details id="where" open>
          <summary>Where is my key?</summary>
          <p>
            The first start of the service prints it, and keeps it in the file <code>api-key</code> in the
            data folder (<code>.millrace</code> unless it was set). If you do not run the service, ask its
            admin for a user.
          </p>
        </details>
      </div>
      <ThemeSwitch />
    </main>
  );
}

function ProviderButton({
  provider: { name, available },
  returnTo,
}: {
  provider: { name: string; available: boolean };
  returnTo: string;
}) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  const shown = visible(shortened(name, 60));
  const go = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      await goToProvider('/v1/session/single_sign_on', returnTo);
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  return (
    <>
      {problem !== undefined && <Problem error={problem} />}
      {problem === undefined && !available && (
        <p className="note" role="status">
          {shown} did not answer when it was last asked. Try it, or use an API key.
        </p>
      )}
      <button type="button" className="button primary wide" disabled={busy} onClick={() => void go()}>
        {busy ? 'One moment …' : `Continue with ${shown}`}
      </button>
    </>
  );
}

/** Only a path of this service: never another host, however it is written. */
function safeNext(next: string | null): string {
  if (next === null || !next.startsWith('/')) return '/';
  const url = new URL(next, window.location.origin);
  if (url.origin !== window.location.origin || url.pathname.startsWith('//') || url.pathname === '/sign-in')
    return '/';
  return url.pathname + url.search;
}
