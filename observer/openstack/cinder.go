package openstack

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
)

// volume is what we read of a volume.
type volume struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Attachments []struct {
		Server string `json:"server_id"`
	} `json:"attachments"`
}

// readVolumes reads which servers have a volume in error. That is no state of theirs, but
// may be the reason for one.
func (p *Provider) readVolumes(ctx context.Context, s *session) {
	if s.cinder != nil {
		aside(ctx, p, "volumes are not observed", s.brokenVolumes, func(broken map[string]string) { p.volumes = broken })
	}
}

// brokenVolumes names, by server, the volumes that are in error and attached.
func (s *session) brokenVolumes(ctx context.Context) (map[string]string, error) {
	query := url.Values{"status": {"error"}}
	if !s.ownOnly {
		query.Set("all_tenants", "1") // heeded for administrators alone
	}
	names := map[string][]string{}
	for last := ""; ; {
		var body struct {
			Volumes []volume   `json:"volumes"`
			Links   []struct{} `json:"volumes_links"`
		}
		if err := s.read(ctx, s.cinder, "volumes/detail", query, &body); err != nil {
			return nil, err
		}
		if body.Volumes == nil {
			return nil, errors.New("volumes/detail: the answer has no volumes")
		}
		for _, v := range body.Volumes {
			for _, a := range v.Attachments {
				names[a.Server] = append(names[a.Server], strings.TrimSpace(v.Name+" "+v.ID))
			}
		}
		if len(body.Links) == 0 || len(body.Volumes) == 0 {
			break
		}
		next := body.Volumes[len(body.Volumes)-1].ID
		if next == last {
			return nil, errors.New("volumes/detail: the pages repeat themselves")
		}
		last = next
		query.Set("marker", last)
	}
	broken := make(map[string]string, len(names))
	for server, list := range names {
		slices.Sort(list)
		broken[server] = "in error: volume " + strings.Join(slices.Compact(list), ", ")
	}
	return broken, nil
}

// brokenVolume is what is wrong with the volumes of a server, or "".
func (p *Provider) brokenVolume(server string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.volumes[server]
}
