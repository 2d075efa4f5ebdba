// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Spread asks for replicas on different nodes and in different zones, and rather has two beside each other than one too few. Those
// that differ in matchLabelKeys do not count.
func Spread(selector map[string]string, matchLabelKeys ...string) []corev1.TopologySpreadConstraint {
	constraint := func(key string) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector:  &metav1.LabelSelector{MatchLabels: selector},
			MatchLabelKeys: matchLabelKeys,
		}
	}
	return []corev1.TopologySpreadConstraint{constraint(corev1.LabelHostname), constraint(corev1.LabelTopologyZone)}
}

// Probe asks for a path by plain HTTP, every period seconds.
func Probe(path string, port, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTP,
		}},
		PeriodSeconds: period, TimeoutSeconds: 2, SuccessThreshold: 1, FailureThreshold: failures,
	}
}

// SecretVolume mounts a Secret that has to be there, which is the one that the manager writes.
func SecretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: secret, DefaultMode: ptr.To[int32](0o440),
	}}}
}

// OptionalSecretVolume mounts a Secret of the user's. It may be missing: an agent that runs can say so, and goes on when the kubelet
// brings it. Without keys all of them are mounted.
func OptionalSecretVolume(name, secret string, keys ...string) corev1.Volume {
	volume := SecretVolume(name, secret)
	volume.Secret.Optional = ptr.To(true)
	for _, key := range keys {
		volume.Secret.Items = append(volume.Secret.Items, corev1.KeyToPath{Key: key, Path: key})
	}
	return volume
}
