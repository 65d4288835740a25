import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { ConfigureComponentAnswer } from '#sdk';
import { api } from '~/api/client.ts';
import { shortened, visible } from './plain-text.ts';
import type { FieldProps, PropFormContext } from './prop-field.ts';
import { commonProps, shownDefault } from './simple-fields.tsx';
import { useSettled } from './use-settled.ts';

type PropChoice = ConfigureComponentAnswer['options'][number];

/** Choices that the definition has. */
export function ChoiceField(props: FieldProps) {
  const choices = (props.definition.options ?? []).map(choiceOf);
  return <ChoiceSelect {...props} choices={choices} />;
}

/** Choices from the code of the component, for the values so far, a page at a time; or a typed value. */
export function RemoteChoiceField({ context, ...props }: FieldProps & { context: PropFormContext }) {
  const { definition, id } = props;
  const [wanted, setWanted] = useState(false);
  const [byHand, setByHand] = useState(false);
  const [words, setWords] = useState('');
  const query = useSettled(words.trim());
  const { [definition.name]: _own, ...others } = context.values;
  const answer = useInfiniteQuery({
    queryKey: ['options', context.componentId, definition.name, query, others],
    queryFn: ({ signal, pageParam }) =>
      api<ConfigureComponentAnswer>('POST', '/v1/components/configure', {
        signal,
        body: {
          id: context.componentId,
          prop_name: definition.name,
          configured_props: others,
          page: pageParam.page,
          prev_context: pageParam.context,
          query,
          ...(context.ownerId.startsWith('o_') ? { org_id: context.ownerId } : {}),
        },
      }),
    initialPageParam: { page: 0, context: {} as Record<string, unknown> },
    getNextPageParam: ({ options, context: next }, _pages, { page }) =>
      options.length === 0 ? undefined : { page: page + 1, context: next },
    enabled: wanted && !byHand,
    staleTime: 60_000,
  });
  const pages = answer.data?.pages ?? [];
  const choices = pages.flatMap(({ options }) => options);
  const failed = pages.flatMap(({ errors }) => errors).map(messageOf);
  if (byHand) {
    return (
      <div className="choice">
        <input
          {...commonProps(props)}
          className="input"
          value={
            props.value === undefined
              ? ''
              : typeof props.value === 'string'
                ? props.value
                : JSON.stringify(props.value)
          }
          onChange={(event) => props.onChange(typed(event.target.value, definition.type))}
        />
        <button type="button" className="link" onClick={() => setByHand(false)}>
          Choose instead
        </button>
      </div>
    );
  }
  return (
    <div className="choice">
      {definition.useQuery === true && (
        <input
          className="input small"
          type="search"
          aria-label={`Search among the choices of ${id}`}
          placeholder="Search"
          value={words}
          onFocus={() => setWanted(true)}
          onChange={(event) => setWords(event.target.value)}
        />
      )}
      <ChoiceSelect {...props} choices={choices} onFocus={() => setWanted(true)} />
      <p className="hint" role="status">
        {!wanted && 'The choices are loaded when you come here.'}
        {answer.isFetching && 'Loading choices …'}
        {wanted &&
          answer.isSuccess &&
          !answer.isFetching &&
          choices.length === 0 &&
          failed.length === 0 &&
          'There are no choices.'}
      </p>
      {failed.length > 0 && (
        <p className="field-problem">The component could not say: {visible(failed.join(' '))}</p>
      )}
      {answer.error !== null && <p className="field-problem">{visible(answer.error.message)}</p>}
      <div className="choice-more">
        {answer.hasNextPage && choices.length > 0 && (
          <button
            type="button"
            className="link"
            onClick={() => void answer.fetchNextPage()}
            disabled={answer.isFetching}
          >
            More choices
          </button>
        )}
        {(failed.length > 0 || answer.error !== null) && (
          <button type="button" className="link" onClick={() => void answer.refetch()}>
            Try again
          </button>
        )}
        <button type="button" className="link" onClick={() => setByHand(true)}>
          Type a value instead
        </button>
      </div>
    </div>
  );
}

/** One of them, or several for an array. Values may be of any type: they are identified by their JSON. */
function ChoiceSelect({
  choices,
  onFocus,
  ...props
}: FieldProps & { choices: readonly PropChoice[]; onFocus?: () => void }) {
  const { definition, value, onChange } = props;
  const isMany = definition.type.endsWith('[]');
  const chosen = (isMany ? (Array.isArray(value) ? value : []) : value === undefined ? [] : [value]).map(
    keyOf,
  );
  const missing = chosen.filter((key) => !choices.some((choice) => keyOf(choice.value) === key));
  const pick = (select: HTMLSelectElement) => {
    const keys = [...select.selectedOptions].map((option) => option.value).filter((key) => key !== '');
    const values = keys.map((key) =>
      given(
        choices.find((choice) => keyOf(choice.value) === key),
        key,
        definition.withLabel,
      ),
    );
    onChange(isMany ? (values.length === 0 ? undefined : values) : values[0]);
  };
  return (
    <select
      {...commonProps(props)}
      className="select"
      multiple={isMany}
      {...(isMany ? { size: Math.min(8, Math.max(3, choices.length)) } : {})}
      value={isMany ? chosen : (chosen[0] ?? '')}
      onFocus={onFocus}
      onChange={(event) => pick(event.target)}
    >
      {!isMany && <option value="">{shownDefault(definition.default) || 'Choose …'}</option>}
      {missing.map((key) => (
        <option key={key} value={key}>
          {visible(shortened(key, 100))}
        </option>
      ))}
      {choices.map((choice) => (
        <option key={keyOf(choice.value)} value={keyOf(choice.value)}>
          {visible(shortened(choice.label, 100))}
        </option>
      ))}
    </select>
  );
}

function choiceOf(option: unknown): PropChoice {
  if (typeof option === 'object' && option !== null && 'value' in option) {
    const label = 'label' in option ? String(option.label) : String(option.value);
    return { label, value: option.value };
  }
  return { label: String(option), value: option };
}

/** A value with its label, as the API takes it, counts as its value. */
function keyOf(value: unknown): string {
  if (typeof value === 'object' && value !== null && '__lv' in value) {
    return JSON.stringify((value.__lv as { value: unknown }).value) ?? '';
  }
  return JSON.stringify(value) ?? '';
}

function given(choice: PropChoice | undefined, key: string, withLabel: boolean | undefined): unknown {
  if (choice === undefined) return JSON.parse(key) as unknown;
  return withLabel === true ? { __lv: { label: choice.label, value: choice.value } } : choice.value;
}

function typed(text: string, type: string): unknown {
  if (text === '') return undefined;
  if (type === 'string') return text;
  if (type === 'string[]') return text.split(',').map((part) => part.trim());
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function messageOf(error: string): string {
  try {
    return (JSON.parse(error) as { message?: string }).message ?? error;
  } catch {
    return error;
  }
}
