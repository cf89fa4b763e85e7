package debugapi

import (
	"encoding/json"
	"strings"

	"addon-operator/internal/redact"
	"addon-operator/internal/tree"
)

// withoutSecrets returns v as JSON has it, with every text and number replaced that
// stands below a key that looks secret, in a Secret object but for its name, in
// the value of a patch whose path looks secret, or in that of a pair whose name
// does, such as a variable of a container. Empty texts, true, false and null
// stay.
func withoutSecrets(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out, err := tree.Decode(b)
	if err != nil {
		return nil, err
	}
	return hide(out, false), nil
}

func hide(v any, secret bool) any {
	switch v := v.(type) {
	case map[string]any:
		return hideMap(v, secret)
	case []any:
		for i := range v {
			v[i] = hide(v[i], secret)
		}
		return v
	case string:
		if secret && v != "" {
			return redact.Mark
		}
	case json.Number:
		if secret {
			return redact.Mark
		}
	}
	return v
}

// plainInSecrets are the fields of a Secret object, and of what is shown of one,
// that may be seen.
var plainInSecrets = map[string]bool{
	"apiVersion": true, "kind": true, "name": true, "namespace": true, "type": true, "metadata": true,
	"uid": true, "resourceVersion": true, "creationTimestamp": true, "labels": true,
}

func hideMap(m map[string]any, secret bool) any {
	kind, _ := m["kind"].(string)
	path, _ := m["path"].(string)
	name, _ := m["name"].(string)
	inSecret := isSecretKind(kind)
	for key, value := range m {
		switch {
		case inSecret && !secret && key == "metadata":
			m[key] = hideMetadata(value)
		case inSecret && key == "objects": // what a binding sees: each says itself what it is
			m[key] = hide(value, secret)
		case inSecret && !plainInSecrets[key] && key != "binding" && key != "queue" && key != "count":
			m[key] = hide(value, true)
		case key == "value" && (secretPath(path) || redact.Secret(name)):
			m[key] = hide(value, true)
		default:
			m[key] = hide(value, secret || redact.Secret(key))
		}
	}
	return m
}

// hideMetadata keeps what names an object; annotations can hold all of it.
func hideMetadata(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return hide(v, true)
	}
	for key, value := range m {
		if !plainInSecrets[key] {
			m[key] = hide(value, true)
		}
	}
	return m
}

// secretPath reports whether a part of a JSON pointer looks secret.
func secretPath(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if redact.Secret(strings.NewReplacer("~1", "/", "~0", "~").Replace(part)) {
			return true
		}
	}
	return false
}
