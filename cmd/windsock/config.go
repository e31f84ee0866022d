package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"windsock"
	"windsock/document"
	"windsock/monitors"
	"windsock/oidc"
	"windsock/reports"
)

// Config is what the file says.
type Config struct {
	Listen      string
	DB          string
	Roles       []windsock.Role
	Log         LogConfig
	Keep        KeepConfig
	Plugins     []string
	Targets     monitors.Targets
	Origin      string
	PublicURL   string
	AdminToken  string // file with it
	TLS         TLSConfig
	Edge        EdgeConfig
	OIDC        oidc.Config
	Providers   []ProviderConfig
	Reports     reports.Rules // all; nil: those that windsock comes with
	Deployments []windsock.DeploymentSpec
	Instances   []windsock.InstanceSpec // of all deployments
}

// LogConfig says what is logged, and how.
type LogConfig struct {
	Level  string `json:"level"`
	Format string `json:"format"`
}

// fileConfig is the file as it is written: each instance below its deployment.
type fileConfig struct {
	Listen      string           `json:"listen"`
	DB          string           `json:"db"`
	Roles       []windsock.Role  `json:"roles"`
	Log         LogConfig        `json:"log"`
	Keep        KeepConfig       `json:"keep"`
	Plugins     []string         `json:"plugins"`
	Targets     monitors.Targets `json:"targets"`
	Origin      string           `json:"origin"`
	PublicURL   string           `json:"public_url"`
	AdminToken  string           `json:"admin_token_file"`
	TLS         TLSConfig        `json:"tls"`
	OIDC        oidc.Config      `json:"oidc"`
	Providers   []fileProvider   `json:"providers"`
	Reports     []jsontext.Value `json:"reports"`
	Deployments []fileDeployment `json:"deployments"`
	EdgeConfig
}

type fileDeployment struct {
	windsock.DeploymentSpec
	Instances []windsock.InstanceSpec `json:"instances"`
}

const maxConfig = 16 << 20 // bytes

// LoadConfig reads a YAML file. Its fields are those of the API. An error names the
// file, the line and the field.
func LoadConfig(path string) (Config, error) {
	data, err := document.ReadFile(path, maxConfig)
	if err != nil {
		return Config{}, err
	}
	return parseConfig(path, data)
}

func parseConfig(path string, text []byte) (Config, error) {
	doc, err := document.Parse(path, text)
	if err != nil {
		return Config{}, err
	}
	data, err := doc.JSON()
	if err != nil {
		return Config{}, err
	}
	var file fileConfig
	if err := json.Unmarshal(data, &file, json.RejectUnknownMembers(true)); err != nil {
		return Config{}, explain(doc, "", err)
	}
	if err := file.checkSettings(); err != nil {
		return Config{}, locate(doc, "", err)
	}
	return file.flatten(doc)
}

func (f *fileConfig) checkSettings() error {
	if f.Listen != "" {
		_, port, err := net.SplitHostPort(f.Listen)
		if _, numErr := strconv.ParseUint(port, 10, 16); err != nil || numErr != nil {
			return windsock.Invalid("listen", "want host:port, got %q", f.Listen)
		}
	}
	if f.Log.Level != "" {
		if _, err := logLevel(f.Log.Level); err != nil {
			return err
		}
	}
	if f.Log.Format != "" {
		if _, err := logHandler(f.Log.Format, nil, nil); err != nil {
			return err
		}
	}
	if f.Origin != "" {
		if err := windsock.CheckOrigin(f.Origin); err != nil {
			return err
		}
	}
	if f.PublicURL != "" {
		if err := windsock.CheckPublicURL(f.PublicURL); err != nil {
			return err
		}
	}
	if err := windsock.CheckRoles(f.Roles); err != nil {
		return err
	}
	if err := cmp.Or(f.TLS.check(), f.EdgeConfig.check(), f.OIDC.Check()); err != nil {
		return err
	}
	return f.Keep.check()
}

// flatten completes and checks what is declared, and sorts it by kind.
func (f *fileConfig) flatten(doc *document.Document) (Config, error) {
	c := Config{
		Listen: f.Listen, DB: f.DB, Roles: f.Roles, Log: f.Log, Keep: f.Keep, Plugins: f.Plugins, Targets: f.Targets,
		Origin: f.Origin, PublicURL: f.PublicURL, AdminToken: f.AdminToken, TLS: f.TLS, Edge: f.EdgeConfig, OIDC: f.OIDC,
	}
	var err error
	if c.Providers, err = f.providers(doc); err != nil {
		return Config{}, err
	}
	if c.Reports, err = f.reports(doc); err != nil {
		return Config{}, err
	}
	known := declared{}
	for i := range f.Deployments {
		d := &f.Deployments[i]
		at := jsontext.Pointer("/deployments").AppendToken(strconv.Itoa(i))
		if err := d.Complete(); err != nil {
			return Config{}, locate(doc, at, err)
		}
		if err := known.add(doc, at, windsock.KindDeployment, d.ID); err != nil {
			return Config{}, err
		}
		c.Deployments = append(c.Deployments, d.DeploymentSpec)
		for j := range d.Instances {
			spec := &d.Instances[j]
			at := at.AppendToken("instances").AppendToken(strconv.Itoa(j))
			if spec.DeploymentID != "" && spec.DeploymentID != d.ID {
				return Config{}, locate(doc, at, windsock.Invalid("deployment_id", "it stands below %q; leave this out", d.ID))
			}
			spec.DeploymentID = d.ID
			if err := spec.Complete(); err != nil {
				return Config{}, locate(doc, at, err)
			}
			if err := known.add(doc, at, windsock.KindInstance, spec.ID); err != nil {
				return Config{}, err
			}
			c.Instances = append(c.Instances, *spec)
		}
	}
	return c, nil
}

// declared remembers where in the file each subject is declared.
type declared map[windsock.Subject]jsontext.Pointer

func (k declared) add(doc *document.Document, at jsontext.Pointer, kind windsock.Kind, id string) error {
	subject := windsock.Subject{Kind: kind, ID: id}
	if first, twice := k[subject]; twice {
		return locate(doc, at, windsock.Invalid("id", "%s %q is declared on line %d already", kind, id, doc.Line(first.AppendToken("id"))))
	}
	k[subject] = at
	return nil
}

// locate says where in the file the field of a FieldError stands; the field is one of
// what stands at the pointer.
func locate(doc *document.Document, at jsontext.Pointer, err error) error {
	var field *windsock.FieldError
	if !errors.As(err, &field) {
		return fmt.Errorf("%s: %w", doc.Path, err)
	}
	if strings.HasPrefix(field.Field, "/") {
		return doc.ErrorAt(at+jsontext.Pointer(field.Field), field.Detail)
	}
	// Only the first dot divides: what follows it may be a key of metadata.
	head, rest, nested := strings.Cut(field.Field, ".")
	at = at.AppendToken(head)
	if nested {
		at = at.AppendToken(rest)
	}
	return doc.ErrorAt(at, field.Detail)
}

// explain says where in the file, at or below the pointer, and how, it is not what we
// read.
func explain(doc *document.Document, at jsontext.Pointer, err error) error {
	var wrong *json.SemanticError
	if !errors.As(err, &wrong) {
		return fmt.Errorf("%s: %w", doc.Path, err)
	}
	at += wrong.JSONPointer
	var field *windsock.FieldError
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return doc.ErrorAt(at, "there is no such field")
	case errors.As(err, &field):
		return doc.ErrorAt(at, field.Detail)
	}
	want := typeNames[wrong.GoType.Kind()]
	if wrong.GoType == reflect.TypeFor[monitors.Rule]() {
		want = "text"
	}
	return doc.ErrorAt(at, fmt.Sprintf("want %s, got %s", want, doc.Shown(at)))
}

// typeNames are what people call the types of our fields.
var typeNames = map[reflect.Kind]string{
	reflect.String: "text", reflect.Int: "a whole number",
	reflect.Slice: "a list", reflect.Map: "a mapping", reflect.Struct: "a mapping",
}
