// Who has a token shows it here.

import { h } from './dom.js';

export function signin(reason, done) {
  return h('form', {
    class: 'signin',
    onsubmit: (event) => {
      event.preventDefault();
      const value = event.target.querySelector('input').value.trim();
      if (value) done(value);
    },
  },
  reason.trim() && h('p', { class: 'trouble', role: 'alert' }, reason),
  h('p', {}, 'This windsock wants a token. It is kept until this tab is closed.'),
  h('label', {}, 'Token', h('input', { type: 'password', autocomplete: 'off', spellcheck: 'false', required: true })),
  h('button', { type: 'submit' }, 'Sign in'));
}
