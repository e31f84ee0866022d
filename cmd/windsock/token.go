package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"windsock"
	"windsock/api"
	"windsock/store"
)

// TokenCmd is "windsock token".
type TokenCmd struct {
	Create TokenCreateCmd `cmd:"" help:"Make a token and print it, this once."`
	List   TokenListCmd   `cmd:"" help:"Show for whom there are tokens."`
	Revoke TokenRevokeCmd `cmd:"" help:"Make a token void."`
}

// tokenPlace is where tokens are kept.
type tokenPlace struct {
	client
	DB string `name:"db" help:"Work on this database itself, whether a windsock runs on it or not: for the first token, and when no token lets you in." placeholder:"FILE|URL"`
}

// open returns what keeps the tokens.
func (p *tokenPlace) open(ctx context.Context) (keeper api.Tokens, done func() error, err error) {
	if p.DB == "" {
		return remoteTokens{&p.client}, func() error { return nil }, nil
	}
	st, err := store.Open(ctx, p.DB, store.Options{Name: processName(), Roles: []windsock.Role{}})
	if err != nil {
		return nil, nil, err
	}
	return st, st.Close, nil
}

// with does something with what keeps the tokens.
func (p *tokenPlace) with(ctx context.Context, do func(api.Tokens) error) error {
	keeper, done, err := p.open(ctx)
	if err != nil {
		return err
	}
	if err := do(keeper); err != nil {
		done()
		return err
	}
	return done()
}

// TokenCreateCmd is "windsock token create".
type TokenCreateCmd struct {
	tokenPlace
	Name    string `arg:"" help:"Whose it is; the audit and the log of events name it."`
	Role    string `help:"What its bearer may: read (see everything), report (and post detections), or admin (everything)." enum:"read,report,admin" default:"read"`
	Scope   string `help:"With the role report: on what alone he may report." placeholder:"deployment:ID|instance:ID|provider:ID|pool:NAME"`
	Monitor string `help:"With the role report: the monitor that is the source of all that he reports." placeholder:"ID"`
	TTL     Age    `name:"ttl" help:"How long it is valid, at most 365d; left out, until it is revoked." placeholder:"AGE"`
}

// Run prints the token, and nothing else, on the standard output.
func (c *TokenCreateCmd) Run(ctx context.Context, io stdio) error {
	return c.with(ctx, func(keeper api.Tokens) error {
		token, secret, err := keeper.AddToken(ctx, windsock.TokenSpec{
			Name: c.Name, Role: windsock.Permission(c.Role), Scope: windsock.Scope(c.Scope), MonitorID: c.Monitor, TTL: windsock.Duration(c.TTL),
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(io.err, "token of %s, role %s, scope %s, %s; it is not shown again\n", token.Name, token.Role, token.Scope, validity(&token))
		fmt.Fprintln(io.out, string(secret))
		return nil
	})
}

func validity(t *windsock.Token) string {
	if t.ExpiresAt.IsZero() {
		return "valid until it is revoked"
	}
	return "valid until " + t.ExpiresAt.Format(time.RFC3339)
}

// TokenListCmd is "windsock token list".
type TokenListCmd struct {
	tokenPlace
	JSON bool `name:"json" help:"Print an object for each, as the API has them."`
}

// Run prints a line for each.
func (c *TokenListCmd) Run(ctx context.Context, io stdio) error {
	return c.with(ctx, func(keeper api.Tokens) error {
		list, err := keeper.Tokens(ctx)
		if err != nil {
			return err
		}
		table := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
		if !c.JSON {
			fmt.Fprintln(table, "NAME\tROLE\tSCOPE\tID\tVALID UNTIL\tLAST USED")
		}
		for i := range list {
			t := &list[i]
			if !c.JSON {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", t.Name, t.Role, t.Scope, t.ID, moment(t.ExpiresAt), moment(t.LastUsedAt))
				continue
			}
			if err := json.NewEncoder(table).Encode(t); err != nil {
				return err
			}
		}
		return table.Flush()
	})
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.RFC3339)
}

// TokenRevokeCmd is "windsock token revoke".
type TokenRevokeCmd struct {
	tokenPlace
	ID string `arg:"" name:"name" help:"Its name, or its id."`
}

// Run revokes it.
func (c *TokenRevokeCmd) Run(ctx context.Context, io stdio) error {
	return c.with(ctx, func(keeper api.Tokens) error {
		if err := keeper.RevokeToken(ctx, c.ID); err != nil {
			return err
		}
		fmt.Fprintf(io.err, "%s is revoked\n", c.ID)
		return nil
	})
}

// remoteTokens are those of a windsock that runs.
type remoteTokens struct{ *client }

func (r remoteTokens) AddToken(ctx context.Context, spec windsock.TokenSpec) (t windsock.Token, secret windsock.Secret, err error) {
	body, err := json.Marshal(spec)
	if err != nil {
		return t, "", err
	}
	var made struct {
		windsock.Token
		Secret string `json:"token"`
	}
	err = r.want(ctx, http.StatusCreated, http.MethodPost, "/api/tokens", body, &made)
	return made.Token, windsock.Secret(made.Secret), err
}

func (r remoteTokens) Tokens(ctx context.Context) ([]windsock.Token, error) {
	var list struct {
		Tokens []windsock.Token `json:"tokens"`
	}
	err := r.want(ctx, http.StatusOK, http.MethodGet, "/api/tokens", nil, &list)
	return list.Tokens, err
}

func (r remoteTokens) RevokeToken(ctx context.Context, id string) error {
	return r.want(ctx, http.StatusNoContent, http.MethodDelete, "/api/tokens/"+url.PathEscape(id), nil, nil)
}

// want calls windsock and reads what it answers, with that status, into dst.
func (r remoteTokens) want(ctx context.Context, status int, method, path string, body []byte, dst any) error {
	a, err := r.do(ctx, method, path, body)
	switch {
	case err != nil:
		return err
	case a.status != status:
		return fmt.Errorf("%s", printable(a.refusal()))
	case dst == nil:
		return nil
	}
	return json.Unmarshal(a.body, dst)
}
