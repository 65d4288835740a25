import { actorOf } from '#accounts/account-audit.ts';
import { requireAccount } from '#accounts/account-rights.ts';
import type { AccountChecker } from '#accounts/check-account.ts';
import { viewAccount } from '#accounts/view-account.ts';
import { newHealth } from '#health/health.ts';
import { healthOf } from '#health/health-store.ts';
import { type App, callerOf, DataOf, IdParams } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { notFound, writable } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import { Account } from './account-shapes.ts';

export interface AccountHealthRouteOptions {
  store: Store;
  clock: Clock;
  accountChecker: Pick<AccountChecker, 'checkNow'>;
}

/** Addition: whether an account works, asked now. */
export function accountHealthRoutes(
  app: App,
  { store, clock, accountChecker }: AccountHealthRouteOptions,
): void {
  app.post(
    '/accounts/:id/test',
    {
      schema: {
        operationId: 'testAccount',
        tags: ['accounts', 'addition'],
        summary: 'Test a connected account now, with the test request of its app',
        description:
          '`healthy`, `error` and `checked_at` have the result. For users who may use the account. An app without a test request ' +
          'leaves the account as it is, and a dead account is not tested. Of MySQL, SSH and plain TCP only whether a server ' +
          'answers is tested, not the login.',
        params: IdParams('apn_…'),
        response: { 200: DataOf(Account) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const account = await requireAccount(store.read, caller, id, 'see');
      // To use it is more than to see it.
      await writable(store.read, caller, account, { what: 'account', id });
      const tested = await accountChecker.checkNow(account, actorOf(caller));
      if (tested === undefined) throw notFound('account', id);
      const health = await healthOf(store.read, 'account', [id], clock.now());
      return {
        data: selectFields(request, viewAccount(tested, health.get(id) ?? newHealth('account'))),
      };
    },
  );
}
