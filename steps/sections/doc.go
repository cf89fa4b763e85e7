// Package sections reads and changes what the store has of the values of modules: the content of the
// ConfigMap in force, and the values patches and enabled overrides of hooks. No patch is tried
// successfully that the schemas reject.
package sections
