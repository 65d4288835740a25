import type { Fields } from './key-ledger.ts';
import type { ForeignSettings } from './project.ts';

/**
 * The settings of a workflow under each name that they have: those of synced repositories, of the public API, and of other answers of that
 * service. Those of concurrency and the like were seen in no repository, so only names that leave no doubt are read; the caller reports the rest.
 */
export function readSettings(fields: Fields): ForeignSettings {
  return {
    timeout: fields.takeFirst(['lambda_timeout', 'timeout_seconds', 'timeout']),
    memory: fields.takeFirst(['lambda_memory', 'memory_mb', 'memory']),
    autoRetry: fields.takeFirst(['auto_retry', 'autoRetry', 'auto_retry_enabled']),
    concurrency: fields.takeFirst(['concurrency', 'concurrency_limit', 'max_concurrency']),
    throttle: fields.takeFirst(['throttle', 'throttling']),
    queueSize: fields.takeFirst(['queue_size', 'queueSize', 'max_queue_size']),
    isolated: fields.take('isolated'),
    errorNotification: fields.takeFirst(
      ['error_notification', 'error_notifications', 'notify_on_error', 'notify_on_errors'],
      'noted',
    ),
    network: fields.takeFirst(['network', 'network_id'], 'noted'),
    retention: fields.takeFirst(['data_retention', 'data_retention_enabled', 'retention'], 'noted'),
  };
}
