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

// Validators identify the version of fetched content. A caller that still has the content of an earlier fetch passes
// the validators of that content, so that unchanged content is not fetched again. The zero value means that the caller
// has no content.
type Validators struct {
	// Source identifies the address from which the content was fetched. Validators of another address are ignored.
	Source string `json:"source,omitempty"`
	// ETag and LastModified are the headers ETag and Last-Modified of an HTTP response.
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
	// Revision is the hash of the git commit, or a digest of the listing of the S3 directory.
	Revision string `json:"revision,omitempty"`
	// Digest is the SHA-256 checksum of the content, in hex.
	Digest string `json:"digest,omitempty"`
}

// A Document is the fetched index of a repository.
type Document struct {
	// Data is the content of the index. It is nil if NotModified is true.
	Data        []byte
	NotModified bool
	Validators  Validators
}

// Content is a fetched addon. The caller must close it.
type Content struct {
	NotModified bool
	Validators  Validators

	archive *spool // the files of the addon as a gzipped tar archive; nil if NotModified is true
	redact  *redactor
	during  string
}

// FS unpacks the addon into memory, and returns its files. The reason of its errors is [api.LoadingError]. It must not
// be called if NotModified is true.
func (c *Content) FS(ctx context.Context) (fs.FS, error) {
	if c.archive == nil {
		return nil, fmt.Errorf("%s: there is no content, as it is not modified", c.during)
	}
	files, err := catalog.Unpack(ctx, c.archive.reader(), catalog.DefaultLimits)
	return files, c.redact.fail(ctx, api.LoadingError, c.during, err)
}

// Close frees the fetched archive. File systems that [Content.FS] has returned stay valid.
func (c *Content) Close() error { return c.archive.Close() }

// A Repository is an addon repository at one address. Its methods may be called concurrently. If the context of a call
// has ended, Index and Addon return the cause of the context. All their other errors have the type *[Error].
type Repository struct {
	backend backend
	redact  *redactor
	limits  Limits
	// source is the [Validators.Source] of content that is fetched from this repository; see the function identity.
	source string
}

// A backend fetches from a repository of one kind, such as git. Its errors may contain secrets, which the methods of
// Repository remove.
type backend interface {
	// index returns the index and its current validators, except Source and Digest, which the caller sets. If known has
	// the validators of the current index, the method may return nil instead of the index.
	index(ctx context.Context, known Validators) (*spool, Validators, error)
	// addon returns the addon as a gzipped tar archive, and its current validators, except Source and Digest. If known
	// has the validators of the current addon, the method may return nil instead of the archive.
	addon(ctx context.Context, name, version string, known Validators) (*spool, Validators, error)
	close() error
}

// Open returns the repository at an address. Open returns an error if the address is not valid. It sends no request.
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

// identity returns a hash that identifies an address. It depends on raw, the URL in the spec with its placeholders,
// and on values of the Secret in the scheme, the host, the path or the reference. It does not depend on values in the
// user or in other query parameters, which are usually credentials.
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

// Index fetches the index of the repository. The argument known has the validators of the content that the caller
// already has. The reason of its errors is [api.FetchingIndexError].
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

// settle sets the source and the digest of content in validators, and reports whether the digest equals known.Digest.
func (r *Repository) settle(content *spool, validators *Validators, known Validators) bool {
	validators.Source, validators.Digest = r.source, content.digest()
	return validators.Digest == known.Digest
}

// settled returns validators with the source of r and the digest known.Digest. It is for content that is not modified.
func (r *Repository) settled(validators, known Validators) Validators {
	validators.Source, validators.Digest = r.source, known.Digest
	return validators
}

// Addon fetches the addon with this name and version, as in the index. The argument known has the validators of the
// content that the caller already has. The reason of its errors is [api.LoadingError] if the content of the addon is
// invalid or its directory does not exist, and otherwise [api.FetchingError], for example if an HTTP server does not
// have its archive. The caller must close the content.
func (r *Repository) Addon(ctx context.Context, name, version string, known Validators) (*Content, error) {
	known = r.ours(known)
	during := fmt.Sprintf("while loading addon %s: while reading addon archive for name [%s] and version [%s]", name, name, version)
	if base := name + "-" + version; strings.ContainsAny(base, "/\\\x00") || strings.HasPrefix(base, ".") {
		return nil, r.redact.fail(ctx, api.LoadingError, during, invalid("the name and the version must not contain slashes, backslashes or null bytes, and the name must not begin with a dot"))
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

// Close frees the resources of the repository. The results of [Repository.Index] and [Repository.Addon] stay valid.
func (r *Repository) Close() error { return r.backend.close() }
