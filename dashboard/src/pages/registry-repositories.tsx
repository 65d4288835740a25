import { useMutation } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import type { RegistryRepository } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { isUpdating, useRepositories } from '~/api/registry-queries.ts';
import { useRegistryChanged } from '~/parts/add-package.tsx';
import { Ago } from '~/parts/ago.tsx';
import { ConfirmButton } from '~/parts/confirm-button.tsx';
import { formatBytes, formatNumber } from '~/parts/format.ts';
import { LeftOutCount, LeftOutFiles } from '~/parts/left-out-files.tsx';
import { Empty, Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

/** For admins of the instance: Git repositories that components come from. */
export function RegistryRepositories() {
  const repositories = useRepositories();
  const list = repositories.data ?? [];
  const changed = useRegistryChanged();
  const updating = list.filter(isUpdating).length;
  const before = useRef(updating);
  useEffect(() => {
    // An update has ended: there may be other components.
    if (updating < before.current) changed();
    before.current = updating;
  });
  return (
    <>
      <AddRepository />
      {repositories.error !== null && (
        <Problem error={repositories.error} onRetry={() => void repositories.refetch()} />
      )}
      {repositories.isPending && <Loading />}
      {repositories.data !== undefined && list.length === 0 && (
        <Empty title="No Git repositories yet">
          <p>
            Add a repository of components to use every version in its history. Existing workflows name
            versions that packages no longer have.
          </p>
        </Empty>
      )}
      {list.map((one) => (
        <RepositoryCard key={one.id} one={one} />
      ))}
    </>
  );
}

function AddRepository() {
  const [url, setUrl] = useState('');
  const [ref, setRef] = useState('');
  const changed = useRegistryChanged();
  const add = useMutation({
    mutationFn: async (wanted: { url: string; ref?: string }) =>
      (await api<Data<RegistryRepository>>('POST', '/v1/registry/repositories', { body: wanted })).data,
    onSuccess: () => {
      setUrl('');
      setRef('');
      changed();
    },
  });
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        add.mutate({ url: url.trim(), ...(ref.trim() === '' ? {} : { ref: ref.trim() }) });
      }}
    >
      <h2>Add a Git repository</h2>
      <p className="muted">
        Its history is read, and nothing in it is run. Every version of its components is available to all
        users of this instance.
      </p>
      <div className="tools below">
        <input
          className="input small grow"
          aria-label="URL of the repository"
          placeholder="https://github.com/PipedreamHQ/pipedream"
          required
          maxLength={2000}
          autoComplete="off"
          spellCheck={false}
          value={url}
          onChange={(event) => setUrl(event.target.value)}
        />
        <input
          className="input small"
          aria-label="Branch, tag or commit"
          placeholder="default branch"
          maxLength={250}
          autoComplete="off"
          spellCheck={false}
          value={ref}
          onChange={(event) => setRef(event.target.value)}
        />
        <button type="submit" className="button primary" disabled={add.isPending || url.trim() === ''}>
          Add
        </button>
      </div>
      {add.error !== null && <Problem error={add.error} what="The repository was not added." />}
    </form>
  );
}

const states: Record<RegistryRepository['state'], { name: string; look: string }> = {
  waiting: { name: 'Waiting', look: 'state off' },
  updating: { name: 'Updating', look: 'state off' },
  ready: { name: 'Ready', look: 'state good' },
  failing: { name: 'Failing', look: 'state bad' },
};

function RepositoryCard({ one }: { one: RegistryRepository }) {
  const { url, ref, commit, state, state_since, error, problems, indexed_at } = one;
  const { name, look } = states[state];
  return (
    <section className="card" aria-label={`${visible(shortened(url, 200))} ${visible(ref)}`.trim()}>
      <header className="detail-head">
        <h2 className="break">
          <bdi>{visible(shortened(url, 300))}</bdi> {ref !== '' && <code>{visible(shortened(ref, 60))}</code>}
        </h2>
        <span className="tools">
          <UpdateRepository one={one} />
          <RemoveRepository one={one} />
        </span>
      </header>
      <p className="muted facts">
        <span className={look}>{name}</span>
        <span>
          since <Ago ms={state_since * 1000} />
        </span>
        <span>
          {formatNumber(one.components)} {one.components === 1 ? 'component' : 'components'}
        </span>
        <span>
          {formatNumber(one.versions)} {one.versions === 1 ? 'version' : 'versions'} in{' '}
          {formatNumber(one.commits)} {one.commits === 1 ? 'commit' : 'commits'}
        </span>
        {commit !== null && (
          <span>
            at <code>{commit.slice(0, 12)}</code>
          </span>
        )}
        {indexed_at !== null && state !== 'ready' && (
          <span>
            last updated <Ago ms={indexed_at * 1000} />
          </span>
        )}
        <LeftOutCount problems={problems} />
      </p>
      {isUpdating(one) && <Loading what={progressText(one)} />}
      {error !== null && (
        <p className="break" role="status">
          The last update failed: {visible(shortened(error.message, 1_000))}.
        </p>
      )}
      {error !== null && indexed_at !== null && (
        <p className="muted">The versions that the update before it found are still available.</p>
      )}
      <LeftOutFiles problems={problems} />
    </section>
  );
}

const phases: Record<NonNullable<RegistryRepository['progress']>['phase'], string> = {
  connecting: 'Connecting',
  downloading: 'Downloading the history',
  unpacking: 'Unpacking the history',
  comparing: 'Comparing commits',
  reading: 'Reading components',
  saving: 'Saving versions',
};

function progressText({ state, progress }: RegistryRepository): string {
  if (progress === null) return state === 'waiting' ? 'Waiting for its turn' : 'Starting';
  const { phase, done, total } = progress;
  if (phase === 'downloading') return `${phases[phase]}, ${formatBytes(done)} so far`;
  return total === null ? phases[phase] : `${phases[phase]}, ${formatNumber(done)} of ${formatNumber(total)}`;
}

function UpdateRepository({ one }: { one: RegistryRepository }) {
  const changed = useRegistryChanged();
  const update = useMutation({
    mutationFn: () => api<Data<RegistryRepository>>('POST', `/v1/registry/repositories/${one.id}/update`),
    onSuccess: changed,
  });
  return (
    <>
      <button
        type="button"
        className="button small"
        disabled={update.isPending || isUpdating(one)}
        onClick={() => update.mutate()}
      >
        Update
      </button>
      {update.error !== null && <Problem error={update.error} what="The update was not started." />}
    </>
  );
}

function RemoveRepository({ one: { id, url, versions } }: { one: RegistryRepository }) {
  const changed = useRegistryChanged();
  const remove = useMutation({
    mutationFn: () => api<void>('DELETE', `/v1/registry/repositories/${id}`),
    onSuccess: changed,
  });
  return (
    <ConfirmButton
      name="Remove"
      look="button small danger"
      title="Remove this repository?"
      action="Remove repository"
      change={remove}
      failure="The repository was not removed."
    >
      <p>
        <bdi>{visible(shortened(url, 300))}</bdi> leaves the registry with {formatNumber(versions)}{' '}
        {versions === 1 ? 'version' : 'versions'} of components.
      </p>
      <p>
        Sources and workflows that use them continue to run. New ones find only versions that were used
        before.
      </p>
    </ConfirmButton>
  );
}
