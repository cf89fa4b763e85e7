package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog"
)

// Validators identify a version of fetched content. The zero value is for unknown content. Pass the
// validators of content that you still have: unchanged content is not fetched again.
type Validators struct {
	// Source identifies the address; validators of another address are ignored.
	Source string `json:"source,omitempty"`
	// ETag and LastModified are for HTTP.
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
	// Revision is the commit of git, or a digest of the listing of an S3 directory.
	Revision string `json:"revision,omitempty"`
	// Digest is the SHA-256 of the content in hex.
	Digest string `json:"digest,omitempty"`
}

// A Document is an index.
type Document struct {
	// Data is nil if the document is not modified.
	Data        []byte
	NotModified bool
	Validators  Validators
}

// Content is an addon.
type Content struct {
	NotModified bool
	Validators  Validators

	archive *spool // gzipped tar; nil if not modified
	redact  *redactor
	during  string
}

// FS unpacks the addon. Its errors are LoadingErrors.
func (c *Content) FS(ctx context.Context) (fs.FS, error) {
	if c.archive == nil {
		return nil, fmt.Errorf("%s: there is no content, as it is not modified", c.during)
	}
	files, err := catalog.Unpack(ctx, c.archive.reader(), catalog.DefaultLimits)
	return files, c.redact.fail(ctx, api.LoadingError, c.during, err)
}

// Close frees the content. File systems from FS stay valid.
func (c *Content) Close() error { return c.archive.Close() }

// A Repository is an addon repository. Its methods may be called concurrently.
type Repository struct {
	backend backend
	redact  *redactor
	limits  Limits
	// source identifies the address for Validators. It depends on everything except users and
	// queries.
	source string
}

// A backend fetches from one kind of repository. Its errors may contain secrets; Repository removes
// them.
type backend interface {
	// index returns the index, or nil if it is not modified, and its current validators. The caller
	// sets the digest.
	index(ctx context.Context, known Validators) (*spool, Validators, error)
	// addon returns a gzipped tar, or nil if it is not modified, and its current validators.
	addon(ctx context.Context, name, version string, known Validators) (*spool, Validators, error)
	close() error
}

// Open validates the address of a repository and returns the repository. It sends no request.
func (f *Fetcher) Open(address Address) (*Repository, error) {
	if address.hidden == nil {
		return nil, &Error{Reason: api.EmptyURLError, Permanent: true, text: api.EmptyURLMessage}
	}
	h := address.hidden()
	r := &Repository{redact: newRedactor(h), limits: f.limits}
	l, err := parse(h.url, f.develop)
	if err != nil {
		return nil, &Error{Reason: api.FetchingIndexError, Permanent: true, text: r.redact.clean("while getting getter from factory: " + err.Error())}
	}
	r.source = identity(address.raw, l)
	if r.backend, err = f.backend(l); err != nil {
		return nil, &Error{Reason: api.FetchingIndexError, Permanent: true, text: r.redact.clean("while getting getter from factory: " + describe(err))}
	}
	return r, nil
}

func (f *Fetcher) backend(l location) (backend, error) {
	switch l.kind {
	case kindHTTP:
		return &httpRepository{fetcher: f, url: l.root}, nil
	case kindGit:
		if l.root.Scheme == "ssh" {
			if err := checkSSH(l); err != nil {
				return nil, err
			}
		}
		return &gitRepository{fetcher: f, location: l}, nil
	case kindS3:
		return f.newS3Repository(l)
	case kindFile:
		return &fileRepository{fetcher: f, path: l.root.Path}, nil
	case kindHg:
		return &hgRepository{fetcher: f, location: l}, nil
	default:
		return nil, unsupported(string(l.kind))
	}
}

// identity returns an id that changes with the URL of the spec and with values of a Secret in the
// host or path.
func identity(raw string, l location) string {
	where := url.URL{Scheme: l.root.Scheme, Host: l.root.Host, Path: l.root.Path}
	sum := sha256.Sum256([]byte(raw + "\n" + where.String() + "\n" + l.index + "\n" + l.ref))
	return hex.EncodeToString(sum[:16])
}

func (r *Repository) ours(known Validators) Validators {
	if known.Source != r.source {
		return Validators{}
	}
	return known
}

// Index fetches the index. Its errors are FetchingIndexErrors.
func (r *Repository) Index(ctx context.Context, known Validators) (Document, error) {
	known = r.ours(known)
	document, err := r.index(ctx, known)
	if err != nil {
		return Document{}, r.redact.fail(ctx, api.FetchingIndexError, "while reading repository index", err)
	}
	return document, nil
}

func (r *Repository) index(ctx context.Context, known Validators) (Document, error) {
	content, validators, err := r.backend.index(ctx, known)
	if err != nil {
		return Document{}, err
	}
	defer content.Close()
	if content == nil || r.settle(content, &validators, known) {
		return Document{NotModified: true, Validators: r.settled(validators, known)}, nil
	}
	data, err := io.ReadAll(content.reader())
	if err != nil {
		return Document{}, err
	}
	return Document{Data: data, Validators: validators}, nil
}

// settle sets the digest and reports whether the content is the known one.
func (r *Repository) settle(content *spool, validators *Validators, known Validators) bool {
	validators.Source, validators.Digest = r.source, content.digest()
	return validators.Digest == known.Digest
}

// settled returns the validators of content that is not modified.
func (r *Repository) settled(validators, known Validators) Validators {
	validators.Source, validators.Digest = r.source, known.Digest
	return validators
}

// Addon fetches an addon of the index. The error is a FetchingError if the fetch failed, and a
// LoadingError if the fetched content is not an addon. The caller must close the content.
func (r *Repository) Addon(ctx context.Context, name, version string, known Validators) (*Content, error) {
	known = r.ours(known)
	during := fmt.Sprintf("while loading addon %s: while reading addon archive for name [%s] and version [%s]", name, name, version)
	if base := name + "-" + version; strings.ContainsAny(base, "/\\\x00") || strings.HasPrefix(base, ".") {
		return nil, r.redact.fail(ctx, api.LoadingError, during, invalid("the name and the version must not contain slashes"))
	}
	content, validators, err := r.backend.addon(ctx, name, version, known)
	if err != nil {
		return nil, r.redact.fail(ctx, api.FetchingError, during, err)
	}
	out := &Content{
		archive: content, redact: r.redact,
		during: fmt.Sprintf("while loading addon %s: while loading addon and charts for addon [%s] and version [%s]", name, name, version),
	}
	if content == nil || r.settle(content, &validators, known) {
		content.Close()
		out.archive, out.NotModified, out.Validators = nil, true, r.settled(validators, known)
		return out, nil
	}
	out.Validators = validators
	return out, nil
}

// Close frees the resources of the repository. Documents and contents stay valid.
func (r *Repository) Close() error { return r.backend.close() }
