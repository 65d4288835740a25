const expressionPattern = /\{\{([\s\S]*?)\}\}/g;
const stepPattern = /(?<![\w$.])steps(?:\?\.|\.|\[\s*['"`])\s*([A-Za-z_]\w*)/g;

/** The steps that the expressions of a text name, as far as can be seen without evaluating them. */
export function namedSteps(text: string): string[] {
  return [...text.matchAll(expressionPattern)].flatMap(([, expression = '']) =>
    [...expression.matchAll(stepPattern)].map(([, name = '']) => name),
  );
}
