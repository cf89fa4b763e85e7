// Package hooks runs global and module hooks with --config, and saves their configurations. A module whose
// hooks have no valid configuration is recorded as broken.
package hooks
