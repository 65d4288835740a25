import { useState } from 'react';
import { type RequestForm, readRequest, writeRequest } from '~/editing/request-form.ts';
import { Field, fieldAttributes } from './field.tsx';
import { MarkedWords } from './marked-text.tsx';
import type { FieldProps } from './prop-field.ts';
import { commonProps, JsonField } from './simple-fields.tsx';

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'];
const withoutBody: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/** A request by its URL, method, parameters, headers and body. What these fields cannot show is edited as JSON. */
export function RequestField(props: FieldProps) {
  const { definition, id, value, onChange } = props;
  const [asJson, setAsJson] = useState(false);
  const form = readRequest(value, definition.default);
  const isForm = form !== undefined && !asJson;
  return (
    <>
      {isForm ? (
        <RequestFields
          props={props}
          form={form}
          onChange={(change) => onChange(writeRequest({ ...form, ...change }, definition.default))}
        />
      ) : (
        <>
          <p className="hint pre-line" id={`${id}-hint`}>
            <MarkedWords text={definition.description ?? ''} max={2_000} />
          </p>
          <JsonField {...props} />
        </>
      )}
      {form !== undefined && (
        <button type="button" className="link" onClick={() => setAsJson(isForm)}>
          {isForm ? 'Write the request as JSON' : 'Use the form'}
        </button>
      )}
    </>
  );
}

function RequestFields({
  props,
  form,
  onChange,
}: {
  props: FieldProps;
  form: RequestForm;
  onChange: (change: Partial<RequestForm>) => void;
}) {
  const { id } = props;
  const at = (part: string) => `${id}-${part}`;
  // A method that the list does not have stays.
  const shown = methods.includes(form.method) ? methods : [form.method, ...methods];
  return (
    <div className="edit-body">
      <input
        {...commonProps(props)}
        aria-label="URL"
        className="input"
        autoComplete="off"
        spellCheck={false}
        placeholder="https://example.com/orders"
        value={form.url}
        onChange={(event) => onChange({ url: event.target.value })}
      />
      <Field id={at('method')} name="Method">
        <select
          {...fieldAttributes({ id: at('method') })}
          className="select"
          value={form.method}
          onChange={(event) => onChange({ method: event.target.value })}
        >
          {shown.map((method) => (
            <option key={method}>{method}</option>
          ))}
        </select>
      </Field>
      <Pairs
        id={at('params')}
        name="Query parameters"
        example="status: open"
        pairs={form.params}
        onChange={(params) => onChange({ params })}
      />
      <Pairs
        id={at('headers')}
        name="Headers"
        example="Authorization: Bearer {{process.env.TOKEN}}"
        pairs={form.headers}
        onChange={(headers) => onChange({ headers })}
      />
      {(!withoutBody.has(form.method) || form.body !== '') && (
        <>
          <Field id={at('type')} name="Content type of the body">
            <input
              {...fieldAttributes({ id: at('type') })}
              className="input"
              autoComplete="off"
              spellCheck={false}
              value={form.contentType}
              onChange={(event) => onChange({ contentType: event.target.value })}
            />
          </Field>
          <Field
            id={at('body')}
            name="Body"
            hint={withoutBody.has(form.method) ? `Not sent with ${form.method}.` : undefined}
          >
            <textarea
              {...fieldAttributes({
                id: at('body'),
                hint: withoutBody.has(form.method) ? '' : undefined,
              })}
              className="input code"
              rows={4}
              spellCheck={false}
              placeholder={'{"id": "{{steps.trigger.event.body.id}}"}'}
              value={form.body}
              onChange={(event) => onChange({ body: event.target.value })}
            />
          </Field>
        </>
      )}
    </div>
  );
}

function Pairs({
  id,
  name,
  example,
  pairs,
  onChange,
}: {
  id: string;
  name: string;
  example: string;
  pairs: RequestForm['headers'];
  onChange: (pairs: RequestForm['headers']) => void;
}) {
  const [typed, setTyped] = useState(() => linesOf(pairs));
  // What was typed stays as it was typed, unless the value is another one since.
  const text = linesOf(pairsIn(typed)) === linesOf(pairs) ? typed : linesOf(pairs);
  const hint = `One on each line, such as ${example}`;
  return (
    <Field
      id={id}
      name={
        <>
          {name} <span className="muted">(optional)</span>
        </>
      }
      hint={hint}
    >
      <textarea
        {...fieldAttributes({ id, hint })}
        className="input code"
        rows={2}
        spellCheck={false}
        value={text}
        onChange={(event) => {
          setTyped(event.target.value);
          onChange(pairsIn(event.target.value));
        }}
      />
    </Field>
  );
}

function linesOf(pairs: RequestForm['headers']): string {
  return pairs.map(({ name, value }) => `${name}: ${value}`).join('\n');
}

function pairsIn(text: string): RequestForm['headers'] {
  return text.split('\n').flatMap((line) => {
    const [name = '', ...rest] = line.split(':');
    return name.trim() === '' ? [] : [{ name: name.trim(), value: rest.join(':').trim() }];
  });
}
