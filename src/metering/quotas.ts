import type { OwnerQuotaTable } from '#storage/tables/identity-tables.ts';
import { effectiveLimits, type LimitRow, type Limits } from './owner-limits.ts';

/** What an owner (u_… or o_…) may use on one UTC day. */
export interface Quotas {
  credits: number;
  computeMs: number;
  invocations: number;
}

/** The quotas of an owner without quotas of their own: the settings. */
export interface QuotaDefaults extends Quotas {
  /** True: use beyond the quota is refused. */
  enforced: boolean;
  /** They apply whether quotas are enforced or not. */
  limits: Limits;
}

/** What an owner may have of the processes of user code on a node, where that is less than its share, and with which others it takes turns. */
export interface OwnerLimits {
  /** Absent for users, whose own sources and workflows these are. */
  createdBy?: string;
  /** With work. */
  processesMax?: number;
  /** Memory of all its processes together. */
  memoryMbMax?: number;
}

export function ownerLimits(
  own: Pick<OwnerQuotaTable, 'processes_max' | 'memory_mb_max'> | undefined,
): OwnerLimits {
  const { processes_max = null, memory_mb_max = null } = own ?? {};
  return {
    ...(processes_max === null ? {} : { processesMax: processes_max }),
    ...(memory_mb_max === null ? {} : { memoryMbMax: memory_mb_max }),
  };
}

/** Pure: the settings, where the owner has no number of their own. */
export function effectiveQuotas(
  defaults: QuotaDefaults,
  own: (LimitRow & Pick<OwnerQuotaTable, 'credits' | 'compute_ms' | 'invocations' | 'enforced'>) | undefined,
): QuotaDefaults {
  return {
    credits: own?.credits ?? defaults.credits,
    computeMs: own?.compute_ms ?? defaults.computeMs,
    invocations: own?.invocations ?? defaults.invocations,
    enforced: own === undefined || own.enforced === null ? defaults.enforced : own.enforced === 1,
    limits: effectiveLimits(defaults.limits, own),
  };
}

/** The first of the quotas that is used up; undefined while none is. */
export function quotaUsedUp(quotas: Quotas, used: Quotas): keyof Quotas | undefined {
  if (used.credits >= quotas.credits) return 'credits';
  if (used.computeMs >= quotas.computeMs) return 'computeMs';
  if (used.invocations >= quotas.invocations) return 'invocations';
  return undefined;
}
