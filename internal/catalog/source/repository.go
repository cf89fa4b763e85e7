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

// Validators identify a version of fetched content. A caller that still has earlier content passes its validators, so
// that unchanged content is not fetched again. The zero value means that the caller has no earlier content.
type Validators struct {
	// Source identifies the address. Validators of another address are ignored.
	Source string `json:"source,omitempty"`
	// ETag and LastModified are the headers of an HTTP response.
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
	// Revision is the commit of git, or a digest of the listing of an S3 directory.
	Revision string `json:"revision,omitempty"`
	// Digest is the SHA-256 of the content in hex.
	Digest string `json:"digest,omitempty"`
}

// A Document is the fetched index of a repository.
type Document struct {
	// Data is nil if the document is not modified.
	Data        []byte
	NotModified bool
	Validators  Validators
}

// Content is a fetched addon.
type Content struct {
	NotModified bool
	Validators  Validators

	archive *spool // gzipped tar; nil if not modified
	redact  *redactor
	during  string
}

// FS unpacks the addon. The reason of its errors is LoadingError.
func (c *Content) FS(ctx context.Context) (fs.FS, error) {
	if c.archive == nil {
		return nil, fmt.Errorf("%s: there is no content, as it is not modified", c.during)
	}
	files, err := catalog.Unpack(ctx, c.archive.reader(), catalog.DefaultLimits)
	return files, c.redact.fail(ctx, api.LoadingError, c.during, err)
}

// Close frees the content. File systems that FS has returned stay valid.
func (c *Content) Close() error { return c.archive.Close() }

// A Repository is an addon repository. Its methods may be called concurrently.
type Repository struct {
	backend backend
	redact  *redactor
	limits  Limits
	// source is [Validators.Source] of content from this repository. It does not depend on users and queries in the
	// address.
	source string
}

// A backend fetches from one kind of repository. Its errors may contain secrets; Repository removes
// them.
type backend interface {
	// index returns the index and its current validators. If the index is not modified, it returns nil and the
	// validators. The caller sets the digest.
	index(ctx context.Context, known Validators) (*spool, Validators, error)
	// addon returns the addon as a gzipped tar, and its current validators. If the addon is not modified, it returns
	// nil and the validators.
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

// identity returns a text that identifies an address. It changes with the URL of the spec, and with values of the
// Secret that are used in the host or path.
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

// Index fetches the index. The reason of its errors is FetchingIndexError.
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

// settle sets the digest in validators, and reports whether the digest is that of the known content.
func (r *Repository) settle(content *spool, validators *Validators, known Validators) bool {
	validators.Source, validators.Digest = r.source, content.digest()
	return validators.Digest == known.Digest
}

// settled returns the validators of content that is not modified.
func (r *Repository) settled(validators, known Validators) Validators {
	validators.Source, validators.Digest = r.source, known.Digest
	return validators
}

// Addon fetches an addon of the index. The reason of its error is FetchingError if the fetch failed, and LoadingError
// if the fetched content is not an addon. The caller must close the content.
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
