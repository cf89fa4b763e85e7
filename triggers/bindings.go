package triggers

import (
	"bytes"
	"fmt"
	"iter"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A bindingReader reads the bindings in the store repeatedly. A bindingReader decodes only the
// records that have changed since its last read, because there can be thousands of records, and the
// start of a module changes only a few of them. The zero value is ready to use. Only one goroutine
// at a time may use a bindingReader.
type bindingReader struct {
	known map[string]*binding // by key
	reads uint64
}

// A binding is the decoded record of a binding in the store.
type binding struct {
	store.Binding

	subject graph.Subject
	record  []byte
	readIn  uint64
}

// all yields the bindings in the store, by module, hook and id. The caller must not change the
// bindings.
func (r *bindingReader) all(tx *store.Tx) iter.Seq2[*binding, error] {
	return func(yield func(*binding, error) bool) {
		if r.known == nil {
			r.known = map[string]*binding{}
		}
		r.reads++
		for k, record := range tx.Range(store.At(store.Bindings)) {
			b, err := r.read(tx, k, record)
			if !yield(b, err) {
				return
			}
		}
		for k, b := range r.known {
			if b.readIn != r.reads {
				delete(r.known, k)
			}
		}
	}
}

func (r *bindingReader) read(tx *store.Tx, k store.Key, record []byte) (b *binding, err error) {
	if b = r.known[string(k)]; b == nil || !bytes.Equal(b.record, record) {
		b = &binding{record: bytes.Clone(record)}
		if b.Binding, _, err = store.Load[store.Binding](tx, k); err != nil {
			return nil, err
		}
		if b.subject, err = store.ParseBindingKey(k); err != nil {
			return nil, fmt.Errorf("key of a binding: %w", err)
		}
		r.known[string(k)] = b
	}
	b.readIn = r.reads
	return b, nil
}
