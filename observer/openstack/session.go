package openstack

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gophercloud/gophercloud/v2"
	sdk "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"

	"windsock"
)

// The types of the services we ask.
const (
	novaService    = "compute"
	heatService    = "orchestration"
	neutronService = "network"
	cinderService  = "block-storage"
	cinderV3       = "volumev3" // the same, by the name that most catalogs have
)

const (
	requestLimit = 90 * time.Second // for one answer, to its end
	maxAnswer    = 256 << 20        // bytes; a page of a thousand servers has 1.6 MB, or more with the user data that administrators see
	maxRefusal   = 64 << 10
	longestBusy  = 30 * time.Second // that a service may have us wait for
	busyTries    = 3
)

// session is a cloud that we signed in to. It renews its token by itself.
type session struct {
	client  *gophercloud.ProviderClient
	nova    *gophercloud.ServiceClient
	novaOne *gophercloud.ServiceClient // the same, for one server
	heat    *gophercloud.ServiceClient // nil: there is none
	cinder  *gophercloud.ServiceClient // the same
	neutron *gophercloud.ServiceClient // the same
	project tokens.Project             // that the token is for
	ownOnly bool                       // the servers of other projects may not be listed
	global  atomic.Bool                // the stacks of all projects may be
}

// signIn returns the session, a new one if there is none.
func (p *Provider) signIn(ctx context.Context) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session != nil {
		return p.session, nil
	}
	s, err := p.config.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot sign in: %w", plain(err))
	}
	p.session = s
	return s, nil
}

// connect signs in, and finds the services.
func (c *Config) connect(ctx context.Context) (*session, error) {
	auth, where, trust, err := c.credentials()
	if err != nil {
		return nil, err
	}
	client, err := sdk.NewClient(auth.IdentityEndpoint)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = trust
	client.UserAgent.Prepend("windsock")
	client.HTTPClient = http.Client{Transport: bounded{transport}, Timeout: requestLimit}
	if err := sdk.Authenticate(ctx, client, auth); err != nil {
		return nil, err
	}
	token, ok := client.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
		ExtractServiceCatalog() (*tokens.ServiceCatalog, error)
	})
	if !ok {
		return nil, errors.New("want Keystone v3")
	}
	s := &session{client: client}
	s.global.Store(true)
	if project, err := token.ExtractProject(); err == nil && project != nil {
		s.project = *project
	}
	catalog, err := token.ExtractServiceCatalog()
	if err != nil {
		return nil, err
	}
	s.heat = c.service(client, heatService, catalog, where)
	s.cinder = cmp.Or(c.service(client, cinderService, catalog, where), c.service(client, cinderV3, catalog, where))
	if s.neutron = c.service(client, neutronService, catalog, where); s.neutron != nil && !strings.HasSuffix(s.neutron.Endpoint, "/v2.0/") {
		s.neutron.Endpoint += "v2.0/"
	}
	if s.nova = c.service(client, novaService, catalog, where); s.nova == nil {
		return nil, fmt.Errorf("the catalog has no %s service in the region %q", novaService, where.Region)
	}
	one := *s.nova
	s.novaOne = &one
	return s, s.negotiate(ctx)
}

// credentials reads the cloud's entry of clouds.yaml, or makes one of the environment.
func (c *Config) credentials() (gophercloud.AuthOptions, gophercloud.EndpointOpts, *tls.Config, error) {
	name := cmp.Or(c.Cloud, os.Getenv("OS_CLOUD"))
	options := []clouds.ParseOption{clouds.WithCloudName(name), clouds.WithRegion(c.Region), clouds.WithEndpointType("")}
	if name == "" {
		entry, err := json.Marshal(map[string]any{"clouds": map[string]any{"environment": environment()}})
		if err != nil {
			return gophercloud.AuthOptions{}, gophercloud.EndpointOpts{}, nil, err
		}
		options = []clouds.ParseOption{clouds.WithCloudName("environment"), clouds.WithRegion(cmp.Or(c.Region, os.Getenv("OS_REGION_NAME"))), clouds.WithCloudsYAML(bytes.NewReader(entry))}
	}
	auth, where, trust, err := clouds.Parse(options...)
	auth.AllowReauth = auth.TokenID == ""
	if auth.ApplicationCredentialID+auth.ApplicationCredentialName != "" {
		auth.Scope, auth.TenantID, auth.TenantName = nil, "", "" // it has one of its own
	}
	return auth, where, trust, err
}

// environment is the entry of clouds.yaml that the OS_* variables stand for.
func environment() map[string]any {
	auth := map[string]string{}
	for _, name := range [...]string{
		"auth_url", "username", "user_id", "password", "project_name", "project_id",
		"user_domain_name", "user_domain_id", "project_domain_name", "project_domain_id", "domain_name", "domain_id",
		"application_credential_id", "application_credential_name", "application_credential_secret",
		"token", "system_scope", "trust_id",
	} {
		if value := os.Getenv("OS_" + strings.ToUpper(name)); value != "" {
			auth[name] = value
		}
	}
	entry := map[string]any{"auth": auth}
	for _, name := range [...]string{"cacert", "cert", "key", "interface"} {
		if value := os.Getenv("OS_" + strings.ToUpper(name)); value != "" {
			entry[name] = value
		}
	}
	return entry
}

// service returns a client of a service, or nil if there is none.
func (c *Config) service(client *gophercloud.ProviderClient, name string, catalog *tokens.ServiceCatalog, where gophercloud.EndpointOpts) *gophercloud.ServiceClient {
	at := c.Endpoints[name]
	for _, entry := range catalog.Entries {
		for _, e := range entry.Endpoints {
			if at == "" && entry.Type == name && e.Interface == string(where.Availability) && (where.Region == "" || where.Region == e.RegionID || where.Region == e.Region) {
				at = e.URL
			}
		}
	}
	if at == "" {
		return nil
	}
	return &gophercloud.ServiceClient{ProviderClient: client, Endpoint: gophercloud.NormalizeURL(at), Type: name}
}

// The microversions of Nova that we speak, if it does. 2.69 has all we ask of a listing:
// the few keys of a cell that is down and, since 2.16, the status of hosts; a page costs
// Nova a quarter less than with the newest. 2.71 shows the server groups of one server.
const (
	listMinor = 69
	showMinor = 71
)

// negotiate sets the microversions. Without any it is 2.1, which every Nova speaks.
func (s *session) negotiate(ctx context.Context) error {
	root, err := utils.BaseVersionedEndpoint(s.nova.Endpoint)
	if err != nil {
		return err
	}
	var about struct {
		Version struct {
			Max string `json:"version"`
		} `json:"version"`
	}
	err = s.read(ctx, &gophercloud.ServiceClient{ProviderClient: s.client, Endpoint: gophercloud.NormalizeURL(root)}, "", nil, &about)
	if status(err) != 0 {
		return nil // it does not say
	}
	if err != nil {
		return err
	}
	if major, minor, err := utils.ParseMicroversion(about.Version.Max); err == nil && major == 2 {
		s.nova.Microversion = fmt.Sprintf("2.%d", min(minor, listMinor))
		s.novaOne.Microversion = fmt.Sprintf("2.%d", min(minor, showMinor))
	}
	return nil
}

// read asks a service and decodes its answer. It waits when the service says that it is
// busy, and until when.
func (s *session) read(ctx context.Context, service *gophercloud.ServiceClient, path string, query url.Values, into any) error {
	_, err := s.ask(ctx, service, path, query, into)
	return err
}

// ask is read, and returns the header of the answer.
func (s *session) ask(ctx context.Context, service *gophercloud.ServiceClient, path string, query url.Values, into any) (http.Header, error) {
	at := service.Endpoint + path
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	for try := 1; ; try++ {
		header, err := s.askOnce(ctx, service, at, into)
		var refused *refusal
		if err == nil || try == busyTries || !errors.As(err, &refused) || !refused.busy {
			return header, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(refused.wait):
		}
	}
}

func (s *session) askOnce(ctx context.Context, service *gophercloud.ServiceClient, at string, into any) (http.Header, error) {
	resp, err := service.Request(ctx, http.MethodGet, at, &gophercloud.RequestOpts{KeepResponseBody: true, OkCodes: []int{http.StatusOK}})
	if err != nil {
		return nil, plain(err)
	}
	defer resp.Body.Close()
	if err := json.UnmarshalRead(resp.Body, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("%s: the answer makes no sense: %w", pathOf(at), err)
	}
	return resp.Header, nil
}

// refusal is an answer that is none.
type refusal struct {
	status int
	what   string
	busy   bool // to be asked again
	wait   time.Duration
}

func (r *refusal) Error() string { return r.what }

// plain says what went wrong without what is secret or long.
func plain(err error) error {
	var again *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &again) {
		return fmt.Errorf("the token cannot be renewed: %w", plain(again.ErrReauth))
	}
	var still *gophercloud.ErrErrorAfterReauthentication
	if errors.As(err, &still) {
		return plain(still.ErrOriginal)
	}
	var code gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &code) {
		return err
	}
	r := &refusal{status: code.Actual, what: fmt.Sprintf("%s: %d %s", pathOf(code.URL), code.Actual, http.StatusText(code.Actual))}
	if text := message(code.Body); text != "" {
		r.what += ": " + text
	}
	if code.Actual == http.StatusTooManyRequests || code.Actual == http.StatusServiceUnavailable {
		seconds, err := strconv.Atoi(code.ResponseHeader.Get("Retry-After"))
		r.wait = time.Duration(seconds) * time.Second
		r.busy = err == nil && r.wait >= 0 && r.wait <= longestBusy
	}
	return r
}

// pathOf is what of a URL may be shown.
func pathOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return "a request"
	}
	return u.Path
}

// message returns what a service says is wrong: each wraps it in another way.
func message(body []byte) string {
	var wrapped map[string]jsontext.Value
	if json.Unmarshal(body, &wrapped) != nil {
		return ""
	}
	for _, inner := range wrapped {
		var said struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(inner, &said) == nil && said.Message != "" {
			return windsock.CutReason(said.Message)
		}
	}
	return ""
}

// bounded bounds answers.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(req)
	if err == nil {
		most := int64(maxAnswer)
		if resp.StatusCode >= http.StatusBadRequest {
			most = maxRefusal
		}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, most), resp.Body}
	}
	return resp, err
}
