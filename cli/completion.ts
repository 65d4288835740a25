import type { Command } from 'commander';
import { type GetSessionOptions, plain } from './command-kit.ts';
import { usageError } from './exit-codes.ts';
import { localCommands } from './local-admin.ts';

const shells = ['bash', 'zsh', 'fish'] as const;

export function completionCommand(program: Command, sessionOptions: GetSessionOptions): void {
  plain(
    program,
    'completion <shell>',
    'print a script that completes commands and options in bash, zsh or fish',
  ).action(async (shell: string) => {
    const { terminal } = sessionOptions();
    if (shell === 'bash') terminal.print(bashScript(program));
    else if (shell === 'zsh') terminal.print(zshScript(program));
    else if (shell === 'fish') terminal.print(fishScript(program));
    else throw usageError(`${JSON.stringify(shell)} is not one of ${shells.join(', ')}`);
  });
}

interface Place {
  /** Words before it, such as `sources update`; '' is the start. */
  path: string;
  words: { word: string; summary: string }[];
}

/** What may follow which commands. */
function places(program: Command): Place[] {
  const found: Place[] = [];
  const walk = (command: Command, path: string[]): void => {
    const words = [
      ...command.commands.map((one) => ({ word: one.name(), summary: one.description() })),
      ...command.options.map((option) => ({
        word: option.long ?? option.flags,
        summary: option.description,
      })),
      { word: '--help', summary: 'what it does and takes' },
    ];
    if (path.join(' ') === 'completion') words.push(...shells.map((word) => ({ word, summary: '' })));
    found.push({ path: path.join(' '), words });
    for (const one of command.commands) walk(one, [...path, one.name()]);
  };
  walk(program, []);
  return found.filter(({ path }) => !Object.hasOwn(localCommands, path));
}

/** Takes the first word of a command's path, then the second, as long as there is such a command; options in between are skipped. */
function bashScript(program: Command): string {
  const cases = places(program).map(
    ({ path, words }) => `    ${quoted(path)}) words=${quoted(words.map(({ word }) => word).join(' '))} ;;`,
  );
  const paths = places(program)
    .map(({ path }) => quoted(path))
    .join('|');
  return `# Completion of millrace for bash: source <(millrace completion bash)
_millrace() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path='' word words='' tried
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) continue ;; esac
    tried="\${path:+$path }$word"
    case "$tried" in ${paths}) path="$tried" ;; *) break ;; esac
  done
  case "$path" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ \${#COMPREPLY[@]} -gt 0 || "$current" == -* ]] || COMPREPLY=($(compgen -f -- "$current"))
}
complete -F _millrace millrace`;
}

function zshScript(program: Command): string {
  const cases = places(program).map(({ path, words }) => {
    const entries = words
      .map(({ word, summary }) => quoted(`${word.replaceAll(':', '\\:')}:${summary}`))
      .join(' ');
    return `    ${quoted(path)}) entries=(${entries}) ;;`;
  });
  const paths = places(program)
    .map(({ path }) => quoted(path))
    .join('|');
  return `#compdef millrace
# Completion of millrace for zsh: source <(millrace completion zsh), after compinit
_millrace() {
  local path_='' word tried
  local -a entries
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$word" in -*) continue ;; esac
    tried="\${path_:+$path_ }$word"
    case "$tried" in (${paths}) path_="$tried" ;; (*) break ;; esac
  done
  case "$path_" in
${cases.join('\n')}
  esac
  _describe millrace entries || _files
}
compdef _millrace millrace`;
}

function fishScript(program: Command): string {
  const lines = places(program).flatMap(({ path, words }) =>
    words.map(({ word, summary }) => {
      const what = word.startsWith('--') ? `-l ${word.slice(2)}` : `-f -a ${fishQuoted(word)}`;
      return `complete -c millrace -n ${fishQuoted(`__millrace_at ${fishQuoted(path)}`)} ${what} -d ${fishQuoted(summary)}`;
    }),
  );
  const paths = places(program)
    .filter(({ path }) => path !== '')
    .map(({ path }) => fishQuoted(path))
    .join(' ');
  return `# Completion of millrace for fish: millrace completion fish | source
set -g __millrace_paths ${paths}
function __millrace_at
    set -l path ''
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; and continue
        set -l tried (string trim -- "$path $word")
        contains -- $tried $__millrace_paths; and set path $tried; or break
    end
    test "$path" = "$argv[1]"
end
${lines.join('\n')}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
