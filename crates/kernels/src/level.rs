//! Instruction-set levels, and the token that proves the CPU has one.

use std::{env, error::Error, fmt, str::FromStr, sync::OnceLock};

#[cfg(target_arch = "x86_64")]
use crate::vector::{Avx2, Avx512};
use crate::vector::{Portable, Vector};

/// A set of vector instructions the kernels are compiled for.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Plain Rust over four lanes; the compiler maps it to SSE2, NEON or whatever the target has.
    Portable,
    /// 256-bit vectors with fused multiply-add and half-precision conversion.
    Avx2,
    /// 512-bit vectors (foundation, VL, BW and DQ) on top of [`Level::Avx2`].
    Avx512,
}

impl Level {
    /// Every level, slowest first.
    pub const ALL: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

    /// The name `SYNOD_SIMD` knows the level by.
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    fn supported(self) -> bool {
        if self == Level::Portable {
            return true;
        }
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq");
            avx2 && (self == Level::Avx2 || avx512)
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        false
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Level, LevelError> {
        let found = Level::ALL
            .into_iter()
            .find(|level| level.name().eq_ignore_ascii_case(text.trim()));
        found.ok_or_else(|| LevelError::Unknown {
            value: text.to_owned(),
        })
    }
}

/// Why the level asked for in `SYNOD_SIMD` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LevelError {
    /// The value names no level.
    Unknown {
        /// The value as it was given.
        value: String,
    },
    /// The level exists, but this CPU lacks its instructions.
    Unsupported {
        /// The level that was asked for.
        level: Level,
    },
}

impl fmt::Display for LevelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LevelError::Unknown { value } => {
                write!(
                    f,
                    "SYNOD_SIMD={value:?} names no instruction set; use portable, avx2 or avx512"
                )
            }
            LevelError::Unsupported { level } => {
                let best = Simd::detect().level;
                write!(
                    f,
                    "SYNOD_SIMD={level}: this CPU does not support {level}; its best level is {best}"
                )
            }
        }
    }
}

impl Error for LevelError {}

/// Proof that the CPU supports a [`Level`]; every kernel takes one first.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Simd {
    level: Level,
    divides: bool,
}

impl Simd {
    /// The level `SYNOD_SIMD` asks for if it can be used, else the best this CPU supports. Decided once per process.
    pub fn best() -> Simd {
        static BEST: OnceLock<Simd> = OnceLock::new();
        *BEST.get_or_init(|| Simd::from_env().unwrap_or_else(|_| Simd::detect()))
    }

    /// The level `SYNOD_SIMD` asks for, or the best supported one when the variable is unset or empty.
    pub fn from_env() -> Result<Simd, LevelError> {
        match env::var_os("SYNOD_SIMD") {
            Some(value) if !value.is_empty() => {
                let level = value.to_string_lossy().parse()?;
                Simd::at(level).ok_or(LevelError::Unsupported { level })
            }
            _ => Ok(Simd::detect()),
        }
    }

    /// The token for `level`, if this CPU supports it.
    pub fn at(level: Level) -> Option<Simd> {
        let divides = level < Level::Avx512 || divides();
        level.supported().then_some(Simd { level, divides })
    }

    /// The same level, with roots and quotients of optimisers' steps left to the divider or kept from it: which is faster
    /// depends on the CPU, and is known for this one.
    pub fn dividing(self, divides: bool) -> Simd {
        Simd { divides, ..self }
    }

    /// A token for every level this CPU supports, slowest first.
    pub fn available() -> Vec<Simd> {
        Level::ALL.into_iter().filter_map(Simd::at).collect()
    }

    /// Whether the divider is quick enough for one root and one quotient per parameter.
    pub(crate) fn divides(self) -> bool {
        self.divides
    }

    /// The level this token proves.
    pub fn level(self) -> Level {
        self.level
    }

    fn detect() -> Simd {
        let best = Level::ALL.into_iter().rev().find_map(Simd::at);
        best.unwrap_or(Simd {
            level: Level::Portable,
            divides: true,
        })
    }

    /// Runs `kernel` compiled for this level's instructions.
    #[inline(always)]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.level {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a token of this level is only made after its features were detected.
            Level::Avx2 => unsafe { <Avx2 as Vector>::run(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx512 => unsafe { <Avx512 as Vector>::run(kernel) },
            // SAFETY: the portable level needs no features.
            _ => unsafe { <Portable as Vector>::run(kernel) },
        }
    }
}

/// Whether the divider of 512 bits is faster than Newton steps: it is on AMD's CPUs that have it, from Zen 4 on.
fn divides() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let vendor = std::arch::x86_64::__cpuid(0);
        let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
        name.as_flattened() == b"AuthenticAMD"
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    true
}

/// A computation written once over any [`Vector`]; its arguments are the fields of the implementing struct.
pub(crate) trait Kernel {
    /// What the computation returns.
    type Output;

    /// Runs the computation. Implementations are `#[inline(always)]`, so that they take on the caller's features.
    ///
    /// # Safety
    /// The CPU supports `V`'s instructions, and the code is inlined in a function compiled with them.
    unsafe fn run<V: Vector>(self) -> Self::Output;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_unknown_names_say_what_is_allowed() {
        for level in Level::ALL {
            assert_eq!(level.name().parse(), Ok(level));
        }
        let error = "sse9".parse::<Level>().unwrap_err();
        assert!(
            error.to_string().contains("use portable, avx2 or avx512"),
            "{error}"
        );
    }

    #[test]
    fn the_portable_level_is_always_available_and_the_best_is_among_those_available() {
        assert_eq!(Simd::available()[0].level(), Level::Portable);
        assert!(Simd::available().contains(&Simd::best()));
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "a run for one level shows that it took place")]
    fn the_level_asked_for_is_the_one_used() {
        let asked = Simd::from_env().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(Simd::best(), asked);
        let names = Simd::available().into_iter().map(|simd| simd.level().name());
        println!("levels: {}", names.collect::<Vec<_>>().join(" "));
    }
}
