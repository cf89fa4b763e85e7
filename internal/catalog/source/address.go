package source

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// placeholder matches a placeholder such as {token} in a repository URL.
var placeholder = regexp.MustCompile(`\{(.*?)\}`)

// Placeholders returns the keys of the placeholders in a repository URL, without duplicates, in the order of their
// first occurrence.
func Placeholders(rawURL string) []string {
	var keys []string
	for _, found := range placeholder.FindAllStringSubmatch(clean(rawURL), -1) {
		if !slices.Contains(keys, found[1]) {
			keys = append(keys, found[1])
		}
	}
	return keys
}

// clean returns a URL without line breaks, and without white space at its beginning and end. A URL that is written as
// a multi-line text in YAML can contain them.
func clean(rawURL string) string {
	return strings.TrimSpace(strings.NewReplacer("\n", "", "\r", "").Replace(rawURL))
}

// An Address is a repository URL in which placeholders are replaced by values of a Secret. If an Address is printed or
// marshaled, the text is the URL as in the configuration, with placeholders instead of values.
type Address struct {
	raw string
	// hidden returns the secret parts. It is a function and not a struct, because package fmt would print the fields
	// of a struct.
	hidden func() hidden
}

// hidden contains the secret parts of an address. They must not occur in logs, errors or the status.
type hidden struct {
	url    string   // the URL with values instead of placeholders
	values []string // the values that replace placeholders
}

// String returns the URL as in the configuration, with placeholders.
func (a Address) String() string { return a.raw }

// GoString returns the URL as in the configuration, so that %#v does not print the values either.
func (a Address) GoString() string { return fmt.Sprintf("source.Address(%q)", a.raw) }

// MarshalText returns the URL as in the configuration, with placeholders.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.raw), nil }

// Limits of a repository URL, in bytes. Real URLs and tokens are much shorter, and copies of them are made for each
// request and each error message.
const (
	// maxValue is the maximum length of a value that replaces a placeholder.
	maxValue = 64 << 10
	// maxURL is the maximum length of a URL, before and after its placeholders are replaced.
	maxURL = 256 << 10
)

// Render returns the address for a repository URL. It replaces each placeholder by the value of its key in the Secret,
// without line breaks at the end, and escapes the value for its position in the URL. secret is the data of the Secret,
// or nil if the configuration names no Secret. Render returns an error if the value of a placeholder is missing or not
// allowed at its position, or if the URL or a value is too long.
func Render(rawURL string, secret map[string][]byte) (Address, error) {
	if len(rawURL) > maxURL {
		return Address{}, fmt.Errorf("the repository URL has %d bytes, more than the limit of %d; shorten it", len(rawURL), maxURL)
	}
	keys := Placeholders(rawURL)
	if len(keys) > 0 && secret == nil {
		return Address{}, fmt.Errorf("template fields `[{%s}]` provided but secretRef is empty", strings.Join(keys, "} {"))
	}
	values := map[string]string{}
	var h hidden
	for _, key := range keys {
		value, ok := secret[key]
		if !ok {
			return Address{}, fmt.Errorf("secret does not contain `%s` field", key)
		}
		if value = bytes.TrimRight(value, "\r\n"); len(value) > maxValue {
			return Address{}, fmt.Errorf("the value of `%s` in the Secret has %d bytes, more than the limit of %d; store a shorter value", key, len(value), maxValue)
		}
		values[key] = string(value)
		h.values = append(h.values, values[key])
	}

	url, err := substitute(clean(rawURL), values)
	if err != nil {
		return Address{}, err
	}
	h.url = url
	return Address{raw: rawURL, hidden: func() hidden { return h }}, nil
}

// substitute replaces the placeholders in a URL by values, and escapes the values. An empty value between two slashes
// is an error, because the URL would then have two adjacent slashes, which separate the root of a repository from the
// path of its index.
func substitute(rawURL string, values map[string]string) (string, error) {
	shape := shapeOf(rawURL)
	var out strings.Builder
	end := 0
	for _, at := range placeholder.FindAllStringSubmatchIndex(rawURL, -1) {
		out.WriteString(rawURL[end:at[0]])
		end = at[1]
		key := rawURL[at[2]:at[3]]
		p := shape.position(at[0])
		if (p == inScheme || p == inHost) && !hostName.MatchString(values[key]) {
			return "", fmt.Errorf("the value of `%s` replaces a part of the %s and must consist of letters, digits and the characters . : _ - [ ]", key, p)
		}
		slashFollows := strings.HasPrefix(rawURL[end:], "/")
		if values[key] == "" && p == inPath && slashFollows && strings.HasSuffix(out.String(), "/") {
			return "", fmt.Errorf("the value of `%s` is a segment of the path and must not be empty", key)
		}
		escapeTo(&out, values[key], p, slashFollows)
		if out.Len() > maxURL {
			break
		}
	}
	out.WriteString(rawURL[end:])
	if out.Len() > maxURL {
		return "", fmt.Errorf("the repository URL has more than the limit of %d bytes after its placeholders are replaced; shorten it, or the values in the Secret", maxURL)
	}
	return out.String(), nil
}

// hostName matches the values that a placeholder in the scheme or in the host and port of a URL may have.
var hostName = regexp.MustCompile(`^[A-Za-z0-9.:_\[\]-]*$`)

// A position is the part of a URL that contains a placeholder. Values are escaped differently in each part.
type position string

const (
	inScheme   position = "scheme"
	inUserinfo position = "userinfo"
	inHost     position = "host"
	inPath     position = "path"
	inQuery    position = "query"
)

// A shape contains the offsets at which the parts of a URL begin. It is computed before placeholders are replaced, so
// that a value cannot change where a part begins.
type shape struct {
	authority, host, path, query int
}

func (s shape) position(at int) position {
	switch {
	case at < s.authority:
		return inScheme
	case at < s.host:
		return inUserinfo
	case at < s.path:
		return inHost
	case at < s.query:
		return inPath
	default:
		return inQuery
	}
}

func shapeOf(rawURL string) shape {
	text := placeholder.ReplaceAllStringFunc(rawURL, func(found string) string { return strings.Repeat("x", len(found)) })
	s := shape{}
	if forced := forcedScheme.FindString(text); forced != "" {
		s.authority = len(forced)
	}
	rest := text[s.authority:]
	end := "/?#"
	if i := strings.Index(rest, "://"); i >= 0 {
		s.authority += i + len("://")
		rest = rest[i+len("://"):]
	} else if strings.HasPrefix(rest, "//") {
		s.authority += len("//")
		rest = rest[len("//"):]
	} else if scpForm.MatchString(rest) {
		end = ":"
	}
	n := strings.IndexAny(rest, end)
	if n < 0 {
		n = len(rest)
	}
	s.host = s.authority + strings.LastIndexByte(rest[:n], '@') + 1
	s.path = s.authority + n
	s.query = len(text)
	if i := strings.IndexAny(text[s.path:], "?#"); i >= 0 {
		s.query = s.path + i
	}
	return s
}

// escapeTo writes a value to out, escaped for its position in a URL. In a path, a slash is escaped only if it would be
// beside another slash: two adjacent slashes separate the root of a repository from the path of its index.
func escapeTo(out *strings.Builder, value string, p position, slashFollows bool) {
	const hex = "0123456789ABCDEF"
	for i := range len(value) {
		c := value[i]
		slash := c == '/' && p == inPath && !strings.HasSuffix(out.String(), "/") && (i+1 < len(value) || !slashFollows)
		switch {
		case p == inScheme, p == inHost, slash, unreserved(c), p == inPath && strings.IndexByte("!$&'()*+,;=:@", c) >= 0:
			out.WriteByte(c)
		default:
			out.WriteByte('%')
			out.WriteByte(hex[c>>4])
			out.WriteByte(hex[c&15])
		}
	}
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
