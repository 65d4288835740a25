import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import type { RegistryPackage } from '#sdk';
import { api } from '~/api/client.ts';
import { usePackages } from '~/api/registry-queries.ts';
import { AddingPackage, useAddPackage, useRegistryChanged } from '~/parts/add-package.tsx';
import { Ago } from '~/parts/ago.tsx';
import { ConfirmButton } from '~/parts/confirm-button.tsx';
import { formatNumber } from '~/parts/format.ts';
import { LeftOutCount, LeftOutFiles } from '~/parts/left-out-files.tsx';
import { Empty, Loading } from '~/parts/page.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

/** For admins of the instance: what components come from. */
export function RegistryPackages() {
  const packages = usePackages();
  const list = packages.data?.pages.flatMap(({ data }) => data) ?? [];
  return (
    <>
      <AddPackage />
      {packages.error !== null && <Problem error={packages.error} onRetry={() => void packages.refetch()} />}
      {packages.isPending && <Loading />}
      {packages.data !== undefined && list.length === 0 && (
        <Empty title="No packages yet">
          <p>
            What ships with the service is there without any. The packages of public components are named
            after their app, such as <code>@pipedream/slack</code>.
          </p>
        </Empty>
      )}
      {list.map((one) => (
        <PackageCard key={one.id} one={one} />
      ))}
      {packages.hasNextPage && (
        <button
          type="button"
          className="button"
          disabled={packages.isFetchingNextPage}
          onClick={() => void packages.fetchNextPage()}
        >
          More
        </button>
      )}
    </>
  );
}

function AddPackage() {
  const [name, setName] = useState('');
  const [version, setVersion] = useState('');
  const add = useAddPackage({
    onAdded: () => {
      setName('');
      setVersion('');
    },
  });
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        add.mutate({ name: name.trim(), version: version.trim() });
      }}
    >
      <h2>Add a package</h2>
      <p className="muted">
        Of npm: it is downloaded and read, and nothing in it is run. All users of this instance can use its
        components.
      </p>
      <div className="tools below">
        <input
          className="input small grow"
          aria-label="Name of the package"
          placeholder="@pipedream/slack"
          required
          maxLength={300}
          autoComplete="off"
          spellCheck={false}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <input
          className="input small"
          aria-label="Version"
          placeholder="latest"
          maxLength={200}
          autoComplete="off"
          spellCheck={false}
          value={version}
          onChange={(event) => setVersion(event.target.value)}
        />
        <button type="submit" className="button primary" disabled={add.isPending || name.trim() === ''}>
          Add
        </button>
      </div>
      {add.isPending && <AddingPackage since={add.submittedAt} />}
      {add.error !== null && <Problem error={add.error} what="It was not added." />}
      {add.isSuccess && (
        <p className="good below" role="status">
          {visible(add.data.name)} {visible(add.data.version)} is there, with{' '}
          {formatNumber(add.data.keys.length)} {add.data.keys.length === 1 ? 'component' : 'components'}
          {add.data.problems.length === 0 ? '' : `; files that were left out: ${add.data.problems.length}`}.
        </p>
      )}
    </form>
  );
}

const keysShown = 200;

function PackageCard({ one }: { one: RegistryPackage }) {
  const { kind, name, version, keys, problems, apps, created_at } = one;
  return (
    <section className="card" aria-label={`${visible(shortened(name, 200))} ${visible(version)}`}>
      <header className="detail-head">
        <h2 className="break">
          <bdi>{visible(shortened(name, 300))}</bdi> <code>{visible(shortened(version, 60))}</code>
        </h2>
        <RemovePackage one={one} />
      </header>
      <p className="muted facts">
        <span>{kind === 'npm' ? 'npm package' : 'folder'}</span>
        <span>
          {formatNumber(keys.length)} {keys.length === 1 ? 'component' : 'components'}
        </span>
        {apps.length > 0 && <bdi>of {oneLine(apps.join(', '), 200)}</bdi>}
        <span>
          added <Ago ms={created_at * 1000} />
        </span>
        <LeftOutCount problems={problems} />
      </p>
      {keys.length > 0 && (
        <details>
          <summary>Components</summary>
          <ul className="plain-list key-list">
            {keys.slice(0, keysShown).map((entry) => (
              <li key={`${entry.key} ${entry.version}`}>
                <Link href={`/registry/${encodeURIComponent(entry.key)}`}>
                  <code>{visible(shortened(entry.key, 200))}</code>
                </Link>{' '}
                <span className="muted">
                  {entry.type} {visible(shortened(entry.version, 40))}
                </span>
              </li>
            ))}
          </ul>
          {keys.length > keysShown && (
            <p className="muted">
              And {formatNumber(keys.length - keysShown)} more: search for them under Components.
            </p>
          )}
        </details>
      )}
      <LeftOutFiles problems={problems} />
    </section>
  );
}

function RemovePackage({ one: { name, version, keys } }: { one: RegistryPackage }) {
  const changed = useRegistryChanged();
  const remove = useMutation({
    mutationFn: () => api<void>('DELETE', '/v1/registry/packages', { query: { name, version } }),
    onSuccess: changed,
  });
  return (
    <ConfirmButton
      name="Remove"
      look="button small danger"
      title="Remove this package?"
      action="Remove package"
      change={remove}
      failure="It was not removed."
    >
      <p>
        <bdi>{visible(shortened(name, 300))}</bdi> {visible(version)} leaves the registry with{' '}
        {formatNumber(keys.length)} {keys.length === 1 ? 'component' : 'components'}; other versions of it
        stay.
      </p>
      <p>Sources and workflows that use them run on. New ones cannot be made of them.</p>
    </ConfirmButton>
  );
}
