package operation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"addon-operator/internal/tree"
)

// The names of operations in a JSON patch (RFC 6902, section 4): all operations, the operations
// with a value, and the operations with a second path.
var (
	patchOps  = []string{"add", "remove", "replace", "move", "copy", "test"}
	withValue = []string{"add", "replace", "test"}
	withFrom  = []string{"move", "copy"}
)

// mostCopied is the maximum number of bytes that the copy operations of a JSON patch may add to an
// object.
const mostCopied = 8 << 20

// checkJSONPatch reports the problems of a JSON patch, each with the index of its item.
func (d *document) checkJSONPatch(value any) {
	items, ok := value.([]any)
	if !ok {
		d.fail(keyJSONPatch, "must be a list, or a string that contains a list, not %s", tree.Kind(value))
		return
	}
	for i, value := range items {
		field := fmt.Sprintf("%s[%d]", keyJSONPatch, i)
		entries, ok := value.(map[string]any)
		if !ok {
			d.fail(field, "must be a map with op and path, not %s", tree.Kind(value))
			continue
		}
		item := &document{number: d.number, fields: entries}
		item.checkPatchItem()
		d.adopt(field+".", item)
	}
}

func (d *document) checkPatchItem() {
	op := d.text("op")
	d.need("op", op)
	if op != "" && !slices.Contains(patchOps, op) {
		d.fail("op", "is %q, must be one of %s", tree.Excerpt(op), strings.Join(patchOps, ", "))
	}
	d.pointer("path")
	if slices.Contains(withFrom, op) {
		d.pointer("from")
	}
	if _, found := d.fields["value"]; !found && slices.Contains(withValue, op) {
		d.fail("value", "is required for %s", op)
	}
}

// pointer checks a JSON pointer (RFC 6901). The pointer must point to a part of the object. The
// empty pointer, which means the whole object, is rejected, because a patch must not replace the
// whole object.
func (d *document) pointer(field string) {
	value, found := d.fields[field]
	if !found || value == nil {
		d.fail(field, "is required")
		return
	}
	if text := d.text(field); len(d.wrong) == 0 && !strings.HasPrefix(text, "/") {
		d.fail(field, "is %q, must begin with a slash", tree.Excerpt(text))
	}
}

// applyJSONPatch applies patch to object, both JSON, and returns the result.
func applyJSONPatch(patch, object []byte) ([]byte, error) {
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, errors.New("the JSON patch cannot be read") // never happens: Parse has validated the patch
	}
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = mostCopied
	options.EscapeHTML = false
	patched, err := decoded.ApplyWithOptions(object, options)
	if err != nil {
		return nil, fmt.Errorf("the JSON patch does not fit the current object: %w", err)
	}
	return patched, nil
}
