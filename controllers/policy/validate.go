// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/canary"
	"github.com/lighterage/lighterage/controllers/tariff"
)

// What the API allows.
const (
	maxCanaryShare                       = 50
	minCanaryDuration, maxCanaryDuration = 10 * time.Minute, 8784 * time.Hour
)

// maxMinSize is what the API allows.
var maxMinSize = resource.MustParse("1Gi")

var currency = regexp.MustCompile(`^[A-Za-z0-9]{1,16}$`)

// InvalidError is returned for a value that the API server would have refused; objects that are older than a rule may
// hold one.
type InvalidError struct {
	// Field is the path of the value.
	Field string
	// Fix says what it must be.
	Fix string
}

func (e *InvalidError) Error() string {
	return e.Field + " " + e.Fix
}

// ValidateSpec checks a CompressionPolicy. The error is an *InvalidError.
func ValidateSpec(spec v1alpha1.CompressionPolicySpec) error {
	err := validateChoices("spec", spec.Objective, spec.Mode, spec.Codecs, spec.Level, spec.Placement)
	if err == nil && spec.Hardware != nil {
		err = validateMinSize("spec.hardware.minSize", spec.Hardware.MinSize)
	}
	if err == nil && spec.Software != nil {
		err = validateMinSize("spec.software.minSize", spec.Software.MinSize)
	}
	if err == nil && spec.Software != nil {
		err = validateList("spec.software.engines", "engine", "[isa-l, zlib-ng, go]", spec.Software.Engines, engines)
	}
	if err == nil && spec.Prices != nil {
		err = validatePrices(*spec.Prices)
	}
	if err == nil && spec.Software != nil && spec.Software.Disabled && slices.Contains(spec.Codecs, v1alpha1.CodecZstd) {
		err = &InvalidError{
			"spec.codecs", "must not have zstd where spec.software.disabled is true: no accelerator does zstd; write [deflate]",
		}
	}
	if err == nil && spec.Placement == v1alpha1.PlacementRequireHardware && len(spec.Codecs) > 0 &&
		spec.Codecs[0] != v1alpha1.CodecDeflate {
		err = &InvalidError{
			"spec.codecs",
			"must have deflate first where spec.placement is RequireHardware: no accelerator does zstd; write [deflate]",
		}
	}
	if err == nil && spec.Canary != nil {
		err = validateCanary(spec)
	}
	return err
}

func validateCanary(spec v1alpha1.CompressionPolicySpec) error {
	c := spec.Canary
	settings := c.Settings
	switch {
	case reflect.ValueOf(settings).IsZero():
		return &InvalidError{"spec.canary.settings", "must have a setting that differs from the policy; write for example " +
			"level: Balanced"}
	case c.SharePercent < 0 || c.SharePercent > maxCanaryShare:
		return &InvalidError{"spec.canary.sharePercent", fmt.Sprintf("must be between 1 and 50, not %d", c.SharePercent)}
	case c.Duration != nil && (c.Duration.Duration < minCanaryDuration || c.Duration.Duration > maxCanaryDuration):
		return &InvalidError{"spec.canary.duration", fmt.Sprintf(
			"must be between 10m and 8784h, not %s; write for example 24h", c.Duration.Duration)}
	case c.MaxCostIncreasePercent != nil && (*c.MaxCostIncreasePercent < 0 || *c.MaxCostIncreasePercent > 1000):
		return &InvalidError{"spec.canary.maxCostIncreasePercent", fmt.Sprintf("must be between 0 and 1000, not %d",
			*c.MaxCostIncreasePercent)}
	}
	err := validateChoices("spec.canary.settings", settings.Objective, settings.Mode, settings.Codecs, settings.Level, "")
	if err != nil {
		return err
	}
	if err := ValidateSpec(canary.Applied(spec)); err != nil {
		return &InvalidError{"spec.canary.settings", fmt.Sprintf("cannot be used: with them %s", err)}
	}
	return nil
}

var (
	codecs  = []v1alpha1.Codec{v1alpha1.CodecDeflate, v1alpha1.CodecZstd}
	engines = []v1alpha1.SoftwareEngine{
		v1alpha1.EngineISAL, v1alpha1.EngineZlibNG, v1alpha1.EngineGo, v1alpha1.EngineLibzstd, v1alpha1.EngineGoZstd,
	}
)

// validateList checks that every value is one of known and there once; what and example are for the message.
func validateList[T ~string](field, what, example string, values, known []T) error {
	for i, value := range values {
		if !slices.Contains(known, value) {
			return &InvalidError{
				field, fmt.Sprintf("must name known %ss; %q is not one; write for example %s", what, value, example),
			}
		}
		if slices.Contains(values[:i], value) {
			return &InvalidError{field, fmt.Sprintf("must name each %s once; %q is there twice", what, value)}
		}
	}
	return nil
}

// ValidateInline checks what an object sets of compression by itself. The error is an *InvalidError.
func ValidateInline(inline v1alpha1.Compression) error {
	if err := validateChoices(
		"spec.compression", inline.Objective, inline.Mode, inline.Codecs, inline.Level, inline.Placement,
	); err != nil {
		return err
	}
	if !slices.Contains([]v1alpha1.SoftwareUse{"", v1alpha1.SoftwareAllowed, v1alpha1.SoftwareDisabled}, inline.Software) {
		return &InvalidError{"spec.compression.software", fmt.Sprintf("must be Allowed or Disabled, not %q", inline.Software)}
	}
	return validateMinSize("spec.compression.minSize", inline.MinSize)
}

func validateChoices(
	field string, objective v1alpha1.CompressionObjective, mode v1alpha1.CompressionMode, list []v1alpha1.Codec,
	level v1alpha1.CompressionLevel, placement v1alpha1.Placement,
) error {
	switch {
	case !slices.Contains(
		[]v1alpha1.CompressionObjective{"", v1alpha1.ObjectiveCost, v1alpha1.ObjectiveElapsed, v1alpha1.ObjectiveCPU,
			v1alpha1.ObjectiveBytes}, objective,
	):
		return &InvalidError{field + ".objective", fmt.Sprintf("must be Cost, Elapsed, CPU or Bytes, not %q", objective)}
	case !slices.Contains(
		[]v1alpha1.CompressionMode{"", v1alpha1.CompressionAuto, v1alpha1.CompressionAlways, v1alpha1.CompressionNever}, mode,
	):
		return &InvalidError{field + ".mode", fmt.Sprintf("must be Auto, Always or Never, not %q", mode)}
	case !slices.Contains(
		[]v1alpha1.CompressionLevel{"", v1alpha1.CompressionFast, v1alpha1.CompressionBalanced, v1alpha1.CompressionHigh},
		level,
	):
		return &InvalidError{field + ".level", fmt.Sprintf("must be Fast, Balanced or High, not %q", level)}
	case !slices.Contains(
		[]v1alpha1.Placement{
			"", v1alpha1.PlacementPreferHardware, v1alpha1.PlacementRequireHardware, v1alpha1.PlacementAnyNode,
		},
		placement,
	):
		return &InvalidError{
			field + ".placement", fmt.Sprintf("must be PreferHardware, RequireHardware or AnyNode, not %q", placement),
		}
	}
	return validateList(field+".codecs", "codec", "[zstd, deflate]", list, codecs)
}

func validateMinSize(field string, size *resource.Quantity) error {
	if size != nil && (size.Sign() < 0 || size.Cmp(maxMinSize) > 0) {
		return &InvalidError{field, fmt.Sprintf("must be between 0 and 1Gi, not %s; write for example 16Ki", size)}
	}
	return nil
}

func validatePrices(prices v1alpha1.Prices) error {
	if !currency.MatchString(prices.Currency) {
		return &InvalidError{
			"spec.prices.currency", fmt.Sprintf("must be a code, not %q; write for example USD", prices.Currency),
		}
	}
	if err := validatePrice(prices.CPUHour); err != nil {
		return &InvalidError{"spec.prices.cpuHour", err.Error() + "; write for example \"0.031\""}
	}
	if err := validatePrice(prices.NetworkGiB); err != nil {
		return &InvalidError{"spec.prices.networkGiB", err.Error() + "; write for example \"0.05\""}
	}
	return nil
}

func validatePrice(price string) error {
	nanos, err := tariff.ParsePrice(price)
	if err == nil && nanos == 0 {
		err = fmt.Errorf(
			"must be more than 0, not %q; where something costs nothing leave prices out and choose another objective than Cost",
			price,
		)
	}
	return err
}
