package sdk

import (
	"fmt"
	"strings"
)

// Path joins keys to a path for methods of [Values]. It quotes keys where necessary.
func Path(keys ...string) string {
	quoted := make([]string, len(keys))
	for i, key := range keys {
		quoted[i] = quoteKey(key)
	}
	return strings.Join(quoted, ".")
}

func quoteKey(key string) string {
	switch {
	case key != "" && !strings.ContainsAny(key, `."'[]`):
		return key
	case !strings.Contains(key, `"`):
		return `"` + key + `"`
	default:
		return "'" + strings.ReplaceAll(key, "'", "''") + "'"
	}
}

// splitPath splits a path of keys separated by dots. A key in double or single quotes may contain any character. In a
// quoted key, the quote character itself is written twice. An index in brackets means the same as the index after a
// dot: web.hosts[0] is web.hosts.0.
func splitPath(path string) ([]string, error) {
	rest := path
	var keys []string
	for {
		key, behind, err := cutKey(rest)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", path, err)
		}
		keys = append(keys, key)
		switch {
		case behind == "":
			return keys, nil
		case behind[0] == '[':
			rest = behind
		case behind[0] == '.':
			rest = behind[1:]
		default:
			return nil, fmt.Errorf("path %q: a dot is missing before %q", path, behind)
		}
	}
}

func cutKey(rest string) (key, behind string, err error) {
	if rest == "" {
		return "", "", fmt.Errorf("a key is missing: separate keys with dots")
	}
	switch rest[0] {
	case '"', '\'':
		return cutQuoted(rest[1:], rest[:1])
	case '[':
		number, behind, ok := strings.Cut(rest[1:], "]")
		if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
			return "", "", fmt.Errorf("%q does not begin with an index such as [0]", rest)
		}
		return number, behind, nil
	}
	end := strings.IndexAny(rest, `.["']`)
	switch {
	case end < 0:
		return rest, "", nil
	case end == 0:
		return "", "", fmt.Errorf("a key is missing before %q", rest)
	default:
		return rest[:end], rest[end:], nil
	}
}

func cutQuoted(rest, quote string) (key, behind string, err error) {
	var text strings.Builder
	for {
		part, more, ok := strings.Cut(rest, quote)
		if !ok {
			return "", "", fmt.Errorf("a quote is not closed")
		}
		text.WriteString(part)
		if !strings.HasPrefix(more, quote) {
			return text.String(), more, nil
		}
		text.WriteString(quote)
		rest = more[1:]
	}
}

// pointer joins keys to a JSON pointer (RFC 6901).
func pointer(keys []string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var text strings.Builder
	for _, key := range keys {
		text.WriteString("/" + escape.Replace(key))
	}
	return text.String()
}
