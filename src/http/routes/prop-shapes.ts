import { Type } from 'typebox';

const Flag = Type.Optional(Type.Boolean());
const Text = Type.Optional(Type.String());

/** One of `configurable_props` in answers, with the attributes that forms show; others are there as the component has them. */
export const ConfigurableProp = Type.Object(
  {
    name: Type.String(),
    type: Type.String(),
    label: Text,
    description: Text,
    optional: Flag,
    default: Type.Optional(Type.Unknown()),
    app: Type.Optional(Type.String({ description: 'For the type app: its slug' })),
    options: Type.Optional(Type.Array(Type.Unknown(), { description: 'Values, or { label, value }' })),
    remoteOptions: Type.Optional(
      Type.Boolean({ description: 'The code says what it can be: POST /components/configure' }),
    ),
    useQuery: Type.Optional(Type.Boolean({ description: 'For remoteOptions: whether they can be searched' })),
    reloadProps: Type.Optional(
      Type.Boolean({ description: 'Its value makes other props: POST /components/props' }),
    ),
    withLabel: Flag,
    secret: Flag,
    hidden: Flag,
    disabled: Flag,
    min: Type.Optional(Type.Number()),
    max: Type.Optional(Type.Number()),
    static: Type.Optional(
      Type.Unknown({ description: 'For a timer: its schedule, which cannot be changed' }),
    ),
    content: Type.Optional(Type.String({ description: 'For the type alert: the text' })),
    alertType: Type.Optional(Type.String({ description: 'For the type alert: its kind' })),
  },
  { additionalProperties: true },
);
