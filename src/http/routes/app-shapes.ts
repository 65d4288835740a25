import { type Static, Type } from 'typebox';
import { OneOfOrNull } from '#http/route-support.ts';

const Flag = Type.Optional(
  Type.Enum(['0', '1', 'true', 'false'], { description: '1: only apps for which the registry has some' }),
);

export const appParameters = {
  q: Type.Optional(Type.String({ maxLength: 200, description: 'In the name, the slug or the description' })),
  has_components: Flag,
  has_actions: Flag,
  has_triggers: Flag,
};
const ListParameters = Type.Object(appParameters);
export type ListQuery = Static<typeof ListParameters>;

const properties = {
  id: Type.String({ description: 'app_…' }),
  name_slug: Type.String({ description: 'What `app` of a component says' }),
  name: Type.String(),
  auth_type: Type.Enum(['oauth', 'keys', 'none']),
  description: Type.String(),
  img_src: Type.Null(),
  custom_fields_json: Type.String({
    description: 'JSON array of name, label, description, default, optional, secret',
  }),
  categories: Type.Array(Type.String()),
  owner_id: Type.Union([Type.String(), Type.Null()], {
    description: 'Addition: the owner of a custom app; null: the app comes with the service',
  }),
  oauth: Type.Union(
    [
      Type.Object({
        version: Type.Enum([1, 2]),
        grant: OneOfOrNull(['authorization_code', 'client_credentials']),
        scopes: Type.Array(Type.String()),
        redirect_uri: Type.String({ description: 'Exactly what to register at the provider' }),
        registration: Type.Object({
          url: Type.String(),
          text: Type.String({ description: 'Markdown: what to register at the provider' }),
        }),
      }),
      Type.Null(),
    ],
    { description: 'Addition: for auth_type oauth' },
  ),
};

export const AppShape = Type.Object(properties);

export const AppWithDefinition = Type.Object({
  ...properties,
  definition: Type.Record(Type.String(), Type.Unknown(), {
    description: 'In the format of a file, as POST and PUT take it',
  }),
});

const ObjectOrNull = (description: string) =>
  Type.Optional(Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], { description }));

/** docs/apps.md describes it; the content of its objects is checked by parse-app.ts. */
export const AppBody = Type.Object({
  slug: Type.String({ description: 'Lower case, digits, _ and -: what `app` of a component says' }),
  name: Type.String(),
  description: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  categories: Type.Optional(Type.Union([Type.Array(Type.String()), Type.Null()])),
  auth_type: Type.Enum(['oauth', 'keys', 'none']),
  custom_fields: Type.Optional(
    Type.Union([Type.Array(Type.Record(Type.String(), Type.Unknown())), Type.Null()], {
      description: 'name, label, description, default, optional, secret',
    }),
  ),
  oauth: ObjectOrNull('Endpoints, scopes and how to register a client; for auth_type oauth'),
  test_request: ObjectOrNull('How an account is tested'),
});
