// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
)

// Jobs mount what users name for object stores, and nothing else of a Secret.
func TestCredentialsOfStores(t *testing.T) {
	t.Parallel()
	// withKeys is a Job's pod in a mode with so many Secrets of users, of which it mounts a key.
	withKeys := func(mode, key string, paths ...string) corev1.PodTemplateSpec {
		pod := template()
		first(&pod).Args[0] = mode
		for i, path := range paths {
			name := "credentials" + string(rune('0'+i))
			source := &corev1.SecretVolumeSource{SecretName: "payroll"}
			if key != "" {
				source.Items = []corev1.KeyToPath{{Key: key, Path: key}}
			}
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
				Name: name, VolumeSource: corev1.VolumeSource{Secret: source},
			})
			first(&pod).VolumeMounts = append(first(&pod).VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
		}
		return pod
	}
	const own, one, two = "lighterage-s3-access-key-id", "/etc/lighterage-store", "/etc/lighterage-store-1"
	for what, c := range map[string]struct {
		pod corev1.PodTemplateSpec
		fix string
	}{
		"a probe":              {withKeys("probe", own, one), ""},
		"a Transfer":           {withKeys("local", own, one), ""},
		"through a store":      {withKeys("handoff", own, one), ""},
		"a relay":              {withKeys("relay", own, one), ""},
		"between stores":       {withKeys("local", own, one, two), ""},
		"three":                {withKeys("local", own, one, two, two), "modes probe, local, handoff and relay only"},
		"a sender":             {withKeys("send", own, one), "modes probe, local, handoff and relay only"},
		"a key of others":      {withKeys("local", "password", one), "modes probe, local, handoff and relay only"},
		"all keys":             {withKeys("local", "", one), "modes probe, local, handoff and relay only"},
		"in place of a config": {withKeys("local", own, "/etc/lighterage"), "modes probe, local, handoff and relay only"},
		"as data":              {withKeys("local", own, "/volume"), "under the names of their keys"},
	} {
		expect(t, what, request{managerAccount, admission.Create, resources["Job"], job("bank", c.pod), nil, bank}, c.fix)
	}
}
