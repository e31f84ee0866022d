package openstack

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"windsock"
	"windsock/observer"
	"windsock/observer/providertest"
)

// fake is a Keystone, a Nova and a Heat, that answer what the real ones were seen to.
type fake struct {
	t   *testing.T
	srv *httptest.Server

	mu        sync.Mutex
	row       map[string]any // as one server was recorded
	servers   []map[string]any
	deleted   map[string]bool // servers that were
	changed   map[string]bool // servers that were
	stacks    []map[string]any
	resources map[string][]map[string]any // by stack
	groups    []map[string]any
	services  []map[string]any            // nil: they may not be listed
	volumes   []map[string]any            // those in error; nil: there is no Cinder
	floating  []map[string]any            // IPs; nil: there is no Neutron
	did       map[string][]map[string]any // what was done to a server, the newest first
	broken    providertest.Fault
	pages     int            // that were good
	faults    map[string]int // by a part of the path: the status that it answers

	tokens   int
	expires  int // requests after which a token has expired; 0: never
	uses     int // of the token
	member   bool
	global   bool // the stacks of all projects may be listed
	noDate   bool
	down     int // servers, from the first on, whose cell does not answer
	asked    []string
	handlers map[string]http.HandlerFunc // by path, instead
}

const project = "8dda80375b2d4e969df3ab1c4ab92bd4"

func newFake(t *testing.T) *fake {
	f := &fake{t: t, broken: providertest.Fine, deleted: map[string]bool{}, changed: map[string]bool{}, resources: map[string][]map[string]any{}, did: map[string][]map[string]any{}, faults: map[string]int{}, handlers: map[string]http.HandlerFunc{}}
	f.row = recording(t, "servers.json")["servers"].([]any)[2].(map[string]any)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v3/auth/tokens", f.keystone)
	mux.HandleFunc("GET /compute/v2.1/", f.version)
	mux.HandleFunc("GET /compute/v2.1/servers/detail", f.list)
	mux.HandleFunc("GET /compute/v2.1/servers/{id}", f.show)
	mux.HandleFunc("GET /compute/v2.1/servers/{id}/os-instance-actions", f.actions)
	mux.HandleFunc("GET /compute/v2.1/os-server-groups", f.listGroups)
	mux.HandleFunc("GET /compute/v2.1/os-services", f.listServices)
	mux.HandleFunc("GET /heat/v1/{project}/stacks", f.listStacks)
	mux.HandleFunc("GET /heat/v1/{project}/stacks/{name}/{id}/resources", f.listResources)
	mux.HandleFunc("GET /neutron/v2.0/floatingips", f.listFloating)
	mux.HandleFunc("GET /cinder/v3/{project}/volumes/detail", f.listVolumes)
	f.srv = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, mux) }))
	f.srv.Start()
	t.Cleanup(f.srv.Close)
	clouds := filepath.Join(t.TempDir(), "clouds.yaml")
	entry := fmt.Sprintf(`clouds: {fake: {region_name: RegionOne, auth: {auth_url: "%s/v3", username: demo, password: sesame, project_name: demo, user_domain_name: Default, project_domain_name: Default}}}`, f.srv.URL)
	if err := os.WriteFile(clouds, []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", clouds)
	return f
}

// recording is an answer of the real thing.
func recording(t testing.TB, name string) (o map[string]any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, status int, text string) {
	answer(w, status, map[string]any{"error": map[string]any{"code": status, "message": text}})
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request, mux http.Handler) {
	f.mu.Lock()
	f.asked = append(f.asked, r.Method+" "+r.URL.String())
	fault := f.broken
	if f.page(r) < f.pages {
		fault = providertest.Fine
	}
	own := f.handlers[r.URL.Path]
	status := 0
	for part, s := range f.faults {
		if strings.Contains(r.URL.Path, part) {
			status = s
		}
	}
	authorized := r.Method == http.MethodPost || r.Header.Get("X-Auth-Token") == fmt.Sprintf("token-%d", f.tokens) && (f.expires == 0 || f.uses < f.expires)
	if r.Method == http.MethodGet {
		f.uses++
	}
	if f.noDate {
		w.Header()["Date"] = nil
	}
	f.mu.Unlock()
	switch {
	case status != 0:
		refuse(w, status, "as the test wants it")
	case !authorized:
		refuse(w, http.StatusUnauthorized, "The request you have made requires authentication.")
	case own != nil:
		own(w, r)
	default:
		fault.Wrap(mux).ServeHTTP(w, r)
	}
}

// page is which page of a listing a request is for; what is none counts as the first.
func (f *fake) page(r *http.Request) int {
	marker := r.URL.Query().Get("marker")
	i := slices.IndexFunc(f.servers, func(s map[string]any) bool { return s["id"] == marker })
	return (i + 1) / providertest.PageSize
}

func (f *fake) keystone(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.tokens++
	f.uses = 0
	token := fmt.Sprintf("token-%d", f.tokens)
	f.mu.Unlock()
	service := func(typ, at string) map[string]any {
		return map[string]any{"type": typ, "name": typ, "id": typ, "endpoints": []any{
			map[string]any{"interface": "admin", "region": "RegionOne", "region_id": "RegionOne", "url": "http://127.0.0.1:1"},
			map[string]any{"interface": "public", "region": "RegionTwo", "region_id": "RegionTwo", "url": "http://127.0.0.1:1"},
			map[string]any{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": f.srv.URL + at},
		}}
	}
	catalog := []any{service("identity", "/v3"), service("compute", "/compute/v2.1"), service("orchestration", "/heat/v1/"+project)}
	if f.floating != nil {
		catalog = append(catalog, service("network", "/neutron"))
	}
	if f.volumes != nil {
		catalog = append(catalog, service("volumev3", "/cinder/v3/"+project))
	}
	w.Header().Set("X-Subject-Token", token)
	answer(w, http.StatusCreated, map[string]any{"token": map[string]any{
		"expires_at": "2036-11-30T11:58:29.000000Z", "issued_at": "2026-11-30T10:58:29.000000Z",
		"project": map[string]any{"id": project, "name": "demo", "domain": map[string]any{"id": "default", "name": "Default"}},
		"catalog": catalog,
	}})
}

func (f *fake) version(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"version": map[string]any{"id": "v2.1", "status": "CURRENT", "version": "2.93", "min_version": "2.1"}})
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	query := r.URL.Query()
	if f.member && query.Has("all_tenants") {
		refuse(w, http.StatusForbidden, "Policy doesn't allow os_compute_api:servers:detail:get_all_tenants to be performed.")
		return
	}
	from, changes := 0, query.Has("changes-since")
	if marker := query.Get("marker"); marker != "" {
		from = slices.IndexFunc(f.servers, func(s map[string]any) bool { return s["id"] == marker }) + 1
		if from == 0 {
			refuse(w, http.StatusBadRequest, "marker not found")
			return
		}
	}
	rows := []any{}
	if f.broken.String() == providertest.Repeating.String() && from > 0 {
		rows = append(rows, f.servers[from-1])
	}
	last := from
	for ; last < len(f.servers) && len(rows) < providertest.PageSize; last++ {
		s := f.servers[last]
		id := s["id"].(string)
		switch {
		case changes && !f.changed[id], !changes && f.deleted[id]:
		case last < f.down && len(query["marker"])+len(query["limit"])+len(query["changes-since"]) > 0: // skipped, as Nova does
		case last < f.down:
			rows = append(rows, fewKeys(s))
		default:
			rows = append(rows, s)
		}
	}
	body := map[string]any{"servers": rows}
	if len(rows) == providertest.PageSize {
		body["servers_links"] = []any{map[string]any{"rel": "next", "href": "http://nova.example/?marker=x"}}
	}
	answer(w, http.StatusOK, body)
}

func fewKeys(s map[string]any) map[string]any {
	return map[string]any{"id": s["id"], "status": "UNKNOWN", "tenant_id": s["tenant_id"], "created": s["created"], "links": s["links"]}
}

// find returns a server that is there.
func (f *fake) find(id string) map[string]any {
	i := slices.IndexFunc(f.servers, func(s map[string]any) bool { return s["id"] == id })
	if i < 0 || f.deleted[id] {
		return nil
	}
	if i < f.down {
		return fewKeys(f.servers[i])
	}
	return f.servers[i]
}

func (f *fake) show(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.find(r.PathValue("id")); s != nil {
		answer(w, http.StatusOK, map[string]any{"server": s})
		return
	}
	refuse(w, http.StatusNotFound, "Instance could not be found.")
}

func (f *fake) actions(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := r.PathValue("id")
	if f.deleted[id] {
		answer(w, http.StatusOK, recording(f.t, "actions.json"))
		return
	}
	if did, ok := f.did[id]; ok {
		answer(w, http.StatusOK, map[string]any{"instanceActions": did})
		return
	}
	refuse(w, http.StatusNotFound, "Instance could not be found.")
}

func (f *fake) listGroups(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	groups := f.groups
	if r.URL.Query().Get("offset") != "0" || groups == nil {
		groups = []map[string]any{}
	}
	answer(w, http.StatusOK, map[string]any{"server_groups": groups})
}

func (f *fake) listServices(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.services == nil {
		refuse(w, http.StatusForbidden, "Policy doesn't allow os_compute_api:os-services:list to be performed.")
		return
	}
	query := r.URL.Query()
	list := []any{}
	for _, s := range f.services {
		if query.Get("binary") == s["binary"] && (!query.Has("host") || query.Get("host") == s["host"]) {
			list = append(list, s)
		}
	}
	answer(w, http.StatusOK, map[string]any{"services": list})
}

func (f *fake) listStacks(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	query := r.URL.Query()
	if query.Get("global_tenant") == "true" && !f.global {
		refuse(w, http.StatusForbidden, "You are not authorized to use stacks:global_index.")
		return
	}
	limit, _ := strconv.Atoi(query.Get("limit"))
	after := query.Get("marker") == ""
	list := []any{}
	for _, s := range f.stacks {
		deleted := s["stack_status"] == "DELETE_COMPLETE"
		if after && (limit == 0 || len(list) < limit) && (query.Get("id") == "" || query.Get("id") == s["id"]) && (!deleted || query.Get("show_deleted") == "true") {
			list = append(list, s)
		}
		after = after || s["id"] == query.Get("marker")
	}
	answer(w, http.StatusOK, map[string]any{"stacks": list})
}

func (f *fake) listResources(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.resources[r.PathValue("id")]
	if list == nil {
		list = []map[string]any{}
	}
	answer(w, http.StatusOK, map[string]any{"resources": list})
}

// listVolumes shows one volume on a page.
func (f *fake) listVolumes(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := r.URL.Query().Get("status"); got != "error" {
		f.t.Errorf("asked for volumes that are %q", got)
	}
	from := 1 + slices.IndexFunc(f.volumes, func(v map[string]any) bool { return v["id"] == r.URL.Query().Get("marker") })
	body := map[string]any{"volumes": f.volumes[from:min(from+1, len(f.volumes))]}
	if from+1 < len(f.volumes) {
		body["volumes_links"] = []any{map[string]any{"rel": "next", "href": "http://cinder.example/?marker=x"}}
	}
	answer(w, http.StatusOK, body)
}

// listFloating shows one floating IP on a page.
func (f *fake) listFloating(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from := 1 + slices.IndexFunc(f.floating, func(o map[string]any) bool { return o["id"] == r.URL.Query().Get("marker") })
	body := map[string]any{"floatingips": f.floating[from:min(from+1, len(f.floating))], "floatingips_links": []any{map[string]any{"rel": "previous", "href": "x"}}}
	if from+1 < len(f.floating) {
		body["floatingips_links"] = []any{map[string]any{"rel": "next", "href": "http://neutron.example/?marker=x"}}
	}
	answer(w, http.StatusOK, body)
}

// with changes the cloud while it is observed.
func (f *fake) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// put makes a server, or changes it, to what was recorded but for these fields.
func (f *fake) put(id string, fields map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := maps.Clone(f.row)
	s["id"], s["tenant_id"] = id, project
	maps.Copy(s, fields)
	f.changed[id] = true
	delete(f.deleted, id)
	if i := slices.IndexFunc(f.servers, func(s map[string]any) bool { return s["id"] == id }); i >= 0 {
		f.servers[i] = s
	} else {
		f.servers = append(f.servers, s)
	}
}

// asks returns what was asked for since the last time, of what has part in its URL.
func (f *fake) asks(part string) (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.asked {
		if strings.Contains(a, part) {
			list = append(list, a)
		}
	}
	f.asked = nil
	return list
}

func (f *fake) provider(c Config) *Provider {
	f.t.Helper()
	c.Cloud = "fake"
	p, err := New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// suite is the fake as the suite of all providers drives it.
type suite struct{ *fake }

func (s suite) Provider() observer.Provider { return s.provider(Config{}) }

func (s suite) Put(i providertest.Instance) {
	s.put(i.ID, map[string]any{"name": i.Name, "status": i.Word, "OS-EXT-STS:vm_state": strings.ToLower(i.Word), "metadata": map[string]any{"windsock:deployment": i.Deployment}})
}

func (s suite) Remove(id string) {
	s.with(func() {
		s.deleted[id] = true
		s.changed[id] = true
		i := slices.IndexFunc(s.servers, func(s map[string]any) bool { return s["id"] == id })
		maps.Copy(s.servers[i], map[string]any{"status": "DELETED", "OS-EXT-STS:vm_state": "deleted", "OS-EXT-STS:power_state": 0})
	})
}

func (s suite) Lose(id string) {
	s.with(func() {
		s.servers = slices.DeleteFunc(s.servers, func(s map[string]any) bool { return s["id"] == id })
	})
}

func (s suite) Word(state windsock.State) string {
	return map[windsock.State]string{windsock.Running: "ACTIVE", windsock.Stopped: "SHUTOFF", windsock.Failed: "ERROR"}[state]
}

func (s suite) Break(pages int, f providertest.Fault) {
	s.with(func() { s.pages, s.broken = pages, f })
}

func TestProvider(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Cloud { return suite{newFake(t)} })
}

// canned is a page of so many servers like this one.
func canned(t testing.TB, row any, n int) []byte {
	t.Helper()
	text, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]string, n)
	id := row.(map[string]any)["id"].(string)
	for i := range rows {
		rows[i] = strings.ReplaceAll(string(text), id, fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
	}
	return []byte(`{"servers": [` + strings.Join(rows, ", ") + `]}`)
}

// direct is a provider that is signed in to a Nova at an address, and to nothing else.
func direct(t testing.TB, at string) (*Provider, *session) {
	t.Helper()
	p, err := New(Config{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := &session{client: &gophercloud.ProviderClient{TokenID: "token"}}
	s.nova = &gophercloud.ServiceClient{ProviderClient: s.client, Endpoint: at + "/", Type: novaService}
	return p, s
}

func readAll(t *testing.T, r *http.Request) string {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}
