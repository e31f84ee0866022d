package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"windsock"
)

// seekSelf warns if what is sent to the public URL does not come to the windsock with this
// id: no signal would. It sends what that would know, and refuse, as a callback of its own.
func seekSelf(ctx context.Context, publicURL, id string, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := reachesSelf(ctx, publicURL, id); err != nil && ctx.Err() != context.Canceled {
		log.Warn("signals of components may not come here: nothing that is sent to the public URL does", "public_url", publicURL, "error", err)
	}
}

func reachesSelf(ctx context.Context, publicURL, id string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(publicURL, "/")+"/livez", nil)
	if err != nil {
		return err
	}
	req.Header.Set(windsock.IDHeader, id)
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusLoopDetected {
		return fmt.Errorf("something else answers there, with status %d", resp.StatusCode)
	}
	return nil
}
