import { useEffect, useState } from 'react';
import { resultIn, tell } from '~/parts/connect-result.ts';
import { shortened, visible } from '~/parts/plain-text.ts';

/** The last page of the provider's window: it notifies the page that opened it, and closes. */
export function Connected() {
  const [result] = useState(() => resultIn(window.location.search));
  useEffect(() => {
    document.title = 'Connecting an account · Millrace';
    tell(result);
    // If the browser refuses, the page says that it can be closed.
    window.close();
  }, [result]);
  return (
    <main className="alone">
      <section className="card sign-in">
        <h1>{result.problem === undefined ? 'The account is connected' : 'No account was connected'}</h1>
        {result.problem !== undefined && (
          <p className="pre-line break">{visible(shortened(result.problem, 1_000))}</p>
        )}
        <p className="muted">You can close this window. The page that opened it continues.</p>
      </section>
    </main>
  );
}
