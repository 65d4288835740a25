/** Answers of the public API about accounts and the apps that they are of. All times are ISO 8601. */

interface AccountUser {
  id: string;
  name: string;
  active: boolean;
}

export interface AccountUses {
  sources: AccountUser[];
  workflows: AccountUser[];
  /** Not listed: of others, or too many. */
  more: { sources: number; workflows: number };
  used: { id: string; name: string | null; day: string; uses: number; last_used_at: string }[];
}

export interface AuditEntry {
  id: string;
  action: string;
  user_id: string | null;
  details: Record<string, unknown>;
  created_at: string;
}

export interface ListedApp {
  id: string;
  name_slug: string;
  name: string;
  auth_type: 'oauth' | 'keys' | 'none';
  description: string;
  /** JSON of AppField[]. */
  custom_fields_json: string;
  categories: string[];
  /** null: it comes with the service. */
  owner_id: string | null;
  oauth: {
    version: 1 | 2;
    grant: string | null;
    scopes: string[];
    redirect_uri: string;
    registration: { url: string; text: string };
  } | null;
}

export interface AppField {
  name: string;
  label: string;
  description?: string | null;
  default: string | null;
  optional?: boolean;
  secret?: boolean;
}

/** With its definition, in the format of docs/apps.md. */
export interface App extends ListedApp {
  definition: Record<string, unknown>;
}

/** The client id that an owner has at a provider; the secret is never answered. */
export interface OAuthClient {
  /** null: there is none yet. */
  id: string | null;
  client_id: string | null;
  has_secret: boolean;
  /** null: those of the app. */
  scopes: string[] | null;
  default_scopes: string[];
  redirect_uri: string;
  registration: { url: string; text: string } | null;
  updated_at: string | null;
}
