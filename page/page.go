// Package page is windsock in a browser: static files, which speak to the API and to
// nobody else. They hold no data, so whoever reaches the address may have them; what they
// show the API gives to those who may see it.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed index.html static
var files embed.FS

// policy has the browser load and run these files alone, send nothing elsewhere, and make
// no markup of text: what is not set as text is refused.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Prefix is where the files of the page are, but for the page itself, which is at /.
const Prefix = "/page/"

// Page is the page with its files. The zero Page is none; New makes one.
type Page struct{ files map[string]file }

type file struct {
	plain, zipped []byte
	kind          string
	tag           string
	cache         string
}

// New reads the files that were built in. They lie in a folder whose name is made of all
// that is in them, so that a browser may keep them for good.
func New() *Page {
	static, names := map[string][]byte{}, []string{}
	sum := sha256.New()
	err := fs.WalkDir(files, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		static[path.Base(name)] = data
		names = append(names, path.Base(name))
		fmt.Fprintf(sum, "%s %d\n%s", name, len(data), data)
		return err
	})
	if err != nil {
		panic(err) // what is embedded can be read
	}
	folder := Prefix + hex.EncodeToString(sum.Sum(nil)[:8]) + "/"
	p := &Page{map[string]file{"/": newFile("index.html", index(folder, names), "no-cache")}}
	for name, data := range static {
		p.files[folder+name] = newFile(name, data, "public, max-age=31536000, immutable")
	}
	return p
}

// index is the page itself, which names the scripts, so that they are fetched at once and
// not one after the other.
func index(folder string, names []string) []byte {
	var scripts []string
	for _, name := range names {
		if path.Ext(name) == ".js" {
			scripts = append(scripts, folder+name)
		}
	}
	var b bytes.Buffer
	err := template.Must(template.ParseFS(files, "index.html")).Execute(&b, map[string]any{"Folder": folder, "Scripts": scripts})
	if err != nil {
		panic(err)
	}
	return b.Bytes()
}

func newFile(name string, data []byte, cache string) file {
	var zipped bytes.Buffer
	z, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	z.Write(data)
	z.Close()
	sum := sha256.Sum256(data)
	return file{data, zipped.Bytes(), mime.TypeByExtension(path.Ext(name)), hex.EncodeToString(sum[:8]), cache}
}

// Serves reports whether a path is the page's and not the API's.
func Serves(path string) bool { return path == "/" || strings.HasPrefix(path, Prefix) }

// ServeHTTP answers what Serves.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	f, ok := p.files[r.URL.Path]
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the page can only be read", http.StatusMethodNotAllowed)
		return
	case !ok:
		http.Error(w, "there is no such file; reload the page", http.StatusNotFound)
		return
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", f.cache)
	h.Set("Vary", "Accept-Encoding")
	body, tag := f.plain, f.tag
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body, tag = f.zipped, tag+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}
