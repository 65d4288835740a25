import { useMutation } from '@tanstack/react-query';
import { Link } from 'wouter';
import type { RegistryRepository } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useIsInstanceAdmin } from '~/api/rights.ts';
import { useRegistryChanged } from '~/parts/add-package.tsx';
import { Command } from '~/parts/copy.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { Ask } from './ask.tsx';
import type { Question } from './question.ts';

/** Has every version of the public components. */
const publicComponents = 'https://github.com/PipedreamHQ/pipedream';

export function AskComponents({
  question: { actions },
  onAdded,
  onSkip,
}: {
  question: Extract<Question, { kind: 'components' }>;
  onAdded: () => void;
  onSkip: () => void;
}) {
  const isAdmin = useIsInstanceAdmin();
  const changed = useRegistryChanged();
  const add = useMutation({
    mutationFn: () =>
      api<Data<RegistryRepository>>('POST', '/v1/registry/repositories', { body: { url: publicComponents } }),
    onSuccess: () => {
      changed();
      onAdded();
    },
  });
  return (
    <Ask
      lead={
        <>
          Not here in the version that is named there:{' '}
          {visible(
            shortened(
              actions.map(({ key, version }) => (version === '' ? key : `${key}@${version}`)).join(', '),
              1_000,
            ),
          )}
          .
        </>
      }
      action={isAdmin ? 'Add the Git repository' : undefined}
      isPending={add.isPending}
      onSubmit={() => add.mutate()}
      onSkip={onSkip}
    >
      <p className="label">Bring the public components with all their versions?</p>
      <p>
        {isAdmin ? (
          <>
            The repository is read in the background, which takes minutes and is shown under{' '}
            <Link href="/registry?tab=repositories">Registry, Git repositories</Link>. Check the archive again
            when it is ready. From a terminal:
          </>
        ) : (
          'Ask the admin of the instance to add the Git repository, then check the archive again:'
        )}
      </p>
      <Command text={`millrace registry add --git ${publicComponents}`} />
      <p className="muted">Components of your own are not in it: add their package, folder or repository.</p>
      {add.error !== null && <Problem error={add.error} what="The repository was not added." />}
    </Ask>
  );
}
