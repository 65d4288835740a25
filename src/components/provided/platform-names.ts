/** Everything that `@pipedream/platform` exports by name. */
export {
  type AxiosRequestConfig,
  axios,
  type OauthSignConfig,
  transformConfigForOauth,
} from './platform-axios.ts';
export { ConfigurationError } from './platform-errors.ts';
export { type FileMetadata, getFileStream, getFileStreamAndMetadata } from './platform-files.ts';
export { cloneSafe, jsonStringifySafe } from './platform-json.ts';
export {
  $end,
  $event,
  $send,
  $sendConfigRuntimeTypeChecker,
  END_NEEDLE,
  HTTP_METHODS,
  SendConfigEmail,
  SendConfigEmit,
  SendConfigEmit_optional,
  SendConfigEmit_required,
  SendConfigHTTP,
  SendConfigS3,
  SendConfigSnowflake,
  SendConfigSQL,
  SendConfigSSE,
  sendTypeMap,
} from './platform-send.ts';
export {
  type ColumnSchema,
  type DbInfo,
  type ExecuteQueryArgs,
  sqlProp,
  sqlProxy,
  type TableInfo,
  type TableMetadata,
  type TableSchema,
} from './platform-sql.ts';

/** Seconds between two polls of a source whose user chose nothing else. */
export const DEFAULT_POLLING_SOURCE_TIMER_INTERVAL = 900;

/**
 * Components compare an account's client id with this one to find out whether an account came from the vendor's own
 * OAuth client. Accounts here never do, so this equals no client id.
 */
export const PD_OFFICIAL_GMAIL_OAUTH_CLIENT_ID = 'no-official-client';
