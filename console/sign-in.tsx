import { useState } from 'preact/hooks';
import { keepToken, token } from './ask.ts';
import { needsToken } from './live.ts';

/** The token lives as long as the tab. */
export function SignIn() {
  const [text, setText] = useState('');
  return (
    <form
      class="card sign-in"
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim() === '') return;
        needsToken.value = false;
        keepToken(text.trim());
      }}
    >
      <h2>Token</h2>
      <p>
        {token.value === undefined
          ? 'You need a token of this process to read from another machine, and for each action.'
          : 'This token is not valid, or no longer valid.'}{' '}
        It is <code>management.server.token</code>, or <code>management.server.action-token</code> for what
        acts. It is kept until this tab is closed.
      </p>
      <label for="token">Token</label>
      <input
        {...{ id: 'token', type: 'password', autocomplete: 'off', spellcheck: false, value: text }}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button class="first" type="submit">
        Use this token
      </button>
      <button
        type="button"
        onClick={() => {
          needsToken.value = false;
        }}
      >
        Not now
      </button>
    </form>
  );
}
