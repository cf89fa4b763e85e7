package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"addon-operator/internal/tree"
)

// A Redactor replaces secrets in values by marks. The zero value replaces all secrets by the same mark.
type Redactor struct {
	// Secret is the key with which the hashes in marks are computed. Equal secrets have equal hashes. If Secret is
	// nil, marks have neither hashes nor dates.
	Secret []byte
	// Prefix is the JSON pointer of the redacted value. The JSON pointers in Since begin with Prefix.
	Prefix string
	// Since maps the JSON pointer of a value to the time of the last change of the value.
	Since map[string]time.Time
	// If Undated is true, marks have no dates, because their readers see the dates elsewhere.
	Undated bool
	// If Texts is true, secrets in the middle of texts are also replaced, as by [Text].
	Texts bool
}

// Values returns v as decoded JSON with marks in place of secrets. These texts and numbers are secrets: all values
// below a key with the name of a secret; all fields of a Secret object except its identity, type and labels; the value
// of a patch whose path names a secret; and the field "value" beside a field "name", as in an environment variable, if
// the content of "name" is the name of a secret. A text that contains a private key in PEM is also a secret, even if
// the PEM is encoded in base64. The annotation in which kubectl keeps the object that was applied is redacted like this
// object. Empty texts, true, false and null are never replaced.
func (r Redactor) Values(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out, err := tree.Decode(b)
	if err != nil {
		return nil, err
	}
	return r.hide(out, place{path: r.Prefix}), nil
}

// Value is like [Redactor.Values], for the value v at the JSON pointer path. If a part of path is the name of a
// secret, Value replaces all texts and numbers in v by marks.
func (r Redactor) Value(path string, v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out, err := tree.Decode(b)
	if err != nil {
		return nil, err
	}
	return r.hide(out, place{path: path, secret: secretPath(path)}), nil
}

// A place describes the position of a value in the redacted value.
type place struct {
	path string
	at   time.Time // time in the field "at" of the innermost enclosing map with this field; zero if there is none
	// secret is true if the value is part of a secret. encoded is true if the value is in base64, as in the data of a
	// Secret.
	secret, encoded bool
}

// below returns the place of the value with this key in the map at the place p.
func (p place) below(key string) place {
	p.path += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
	return p
}

// within returns a copy of p. If the argument secret is true, the copy says that its value is part of a secret.
func (p place) within(secret bool) place {
	p.secret = p.secret || secret
	return p
}

func (r Redactor) hide(v any, at place) any {
	switch v := v.(type) {
	case map[string]any:
		return r.hideMap(v, at)
	case []any:
		for i := range v {
			v[i] = r.hide(v[i], at)
		}
		return v
	case string:
		isKey, encoded := privateKey(v)
		at.encoded = at.encoded || encoded
		switch {
		case v != "" && (at.secret || isKey):
			return r.mark(v, at)
		case r.Texts:
			return Text(v)
		}
	case json.Number:
		if at.secret {
			return r.mark(v.String(), at)
		}
	}
	return v
}

// privateKey reports whether text contains a private key in PEM, which can be in base64. The result encoded is true if
// the whole text is in base64. Many charts have such a key in a setting whose name, such as key, does not say that it
// is a secret. A kubeconfig is a text with such a key in base64.
func privateKey(text string) (is, encoded bool) {
	if strings.HasPrefix(text, encodedBegin) {
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			text, encoded = string(decoded), true
		}
	}
	for line := range strings.Lines(text) {
		if beginsPrivateKey(line) {
			return true, encoded
		}
	}
	return slices.ContainsFunc(encodedPEM.FindAllString(text, -1), encodesPrivateKey), false
}

// mark returns the mark for a secret. If r.Secret is set, the mark has a hash of the secret. Unless r.Undated is
// true, the mark also has the time of the last change of the secret, if this time is known.
func (r Redactor) mark(secret string, at place) string {
	if r.Secret == nil {
		return Mark
	}
	if decoded, err := base64.StdEncoding.DecodeString(secret); at.encoded && err == nil {
		secret = string(decoded)
	}
	hash := r.Hash(secret)
	if r.Undated {
		return Hashed(hash, time.Time{})
	}
	since := at.at
	for path := at.path; path != "" && since.IsZero(); path = path[:strings.LastIndex(path, "/")] {
		since = r.Since[path]
	}
	return Hashed(hash, since)
}

// Hash returns the hash of a text with the key r.Secret; empty if r.Secret is nil.
func (r Redactor) Hash(text string) string {
	if r.Secret == nil {
		return ""
	}
	sum := hmac.New(sha256.New, r.Secret)
	_, _ = sum.Write([]byte(text)) // the Write method of a hash returns no error
	return hex.EncodeToString(sum.Sum(nil)[:4])
}

// plainInSecrets are the fields of a Secret object, and of a summary of such an object, that are not hidden.
var plainInSecrets = map[string]bool{
	"apiVersion": true, "kind": true, "name": true, "namespace": true, "type": true, "metadata": true,
	"uid": true, "resourceVersion": true, "creationTimestamp": true, "labels": true,
}

// lastApplied is the annotation in which kubectl keeps the object that was last applied, as JSON.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func (r Redactor) hideMap(m map[string]any, at place) any {
	if text, dated := m["at"].(string); dated { // m is a patch, or a value with the time of its change
		if since, err := time.Parse(time.RFC3339, text); err == nil {
			at.at = since
		}
	}
	kind, _ := m["kind"].(string)
	path, _ := m["path"].(string)
	name, _ := m["name"].(string)
	inSecret := isSecretKind(kind)
	for key, value := range m {
		below := at.below(key)
		switch {
		case inSecret && !at.secret && key == "metadata":
			m[key] = r.hideMetadata(value, below)
		case inSecret && key == "objects": // the kind of each object in a snapshot decides what is hidden in the object
			m[key] = r.hide(value, below)
		case inSecret && !plainInSecrets[key] && key != "binding" && key != "queue" && key != "count":
			below.encoded = key == "data"
			m[key] = r.hide(value, below.within(true))
		case key == lastApplied && !at.secret:
			m[key] = r.hideObject(value, below)
		case key == "value" && (secretPath(path) || Secret(name)):
			m[key] = r.hide(value, below.within(true))
		default:
			m[key] = r.hide(value, below.within(Secret(key)))
		}
	}
	return m
}

// hideMetadata hides all metadata of an object except the fields in plainInSecrets. Annotations must be hidden,
// because they can contain the whole object.
func (r Redactor) hideMetadata(v any, at place) any {
	m, ok := v.(map[string]any)
	if !ok {
		return r.hide(v, at.within(true))
	}
	for key, value := range m {
		if !plainInSecrets[key] {
			m[key] = r.hide(value, at.below(key).within(true))
		}
	}
	return m
}

// hideObject returns the text v, which has an object as JSON, with marks in place of the secrets in the object. If v is
// not such a text, hideObject hides v as a whole.
func (r Redactor) hideObject(v any, at place) any {
	text, _ := v.(string)
	decoded, err := tree.Decode([]byte(text))
	object, isMap := decoded.(map[string]any)
	if err != nil || !isMap {
		return r.hide(v, at.within(true))
	}
	encoded, err := json.Marshal(r.hide(object, at))
	if err != nil {
		return r.hide(v, at.within(true))
	}
	return string(encoded)
}

// secretPath reports whether a part of a JSON pointer is the name of a secret.
func secretPath(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if Secret(strings.NewReplacer("~1", "/", "~0", "~").Replace(part)) {
			return true
		}
	}
	return false
}

// isSecretKind reports whether kind, in any spelling that hooks use, is the kind Secret.
func isSecretKind(kind string) bool {
	kind = strings.ToLower(kind)
	return kind == "secret" || kind == "secrets"
}
