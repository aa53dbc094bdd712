#Requires -RunAsAdministrator
<#
.SYNOPSIS
    Installs softndk.sys, and creates the adapter Root\SoftNdk if there is none, or as many as -Adapters says.
.DESCRIPTION
    Not yet run on Windows. A device without hardware has to be created: devgen.exe of the WDK (22H2 or later) does it. On a machine
    without the WDK, copy devgen.exe there from Tools\<version>\x64 of the kit.
.PARAMETER Package
    The folder that `cargo make` wrote.
.PARAMETER Devgen
    Where devgen.exe is, if not on the path.
.PARAMETER Adapters
    How many adapters the machine is to have at least: two for a patch cable (set-patch-cable.ps1).
.EXAMPLE
    .\install.ps1 -Package .\softndk_package -Devgen .\devgen.exe
.EXAMPLE
    .\install.ps1 -Package .\softndk_package -Devgen .\devgen.exe -Adapters 2
#>
[CmdletBinding()]
param(
    [Parameter(Mandatory)]
    [string] $Package,
    [string] $Devgen = 'devgen.exe',
    [ValidateRange(1, 8)]
    [int] $Adapters = 1
)
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$hardwareId = 'Root\SoftNdk'

# Of any class: a device has none before a driver is installed on it.
function Get-Adapter {
    Get-PnpDevice -PresentOnly | Where-Object { $_.HardwareID -contains $hardwareId }
}

$inf = Join-Path $Package 'softndk.inf'
if (-not (Test-Path $inf)) {
    throw "$inf is not there: is $Package what 'cargo make' wrote?"
}
if (-not (Get-Command $Devgen -ErrorAction SilentlyContinue)) {
    throw "$Devgen is not there: name the one of the WDK by -Devgen."
}

pnputil.exe /add-driver $inf /install
# 259, ERROR_NO_MORE_ITEMS: it is in the driver store, and no device there wants it.
# 3010, ERROR_SUCCESS_REBOOT_REQUIRED.
if ($LASTEXITCODE -notin 0, 259, 3010) {
    throw "pnputil ended with $LASTEXITCODE. See $env:SystemRoot\INF\setupapi.dev.log."
}
if ($LASTEXITCODE -eq 3010) {
    Write-Warning 'Windows has to be restarted before this driver is the one that runs.'
}

for ($there = @(Get-Adapter).Count; $there -lt $Adapters; $there++) {
    & $Devgen /add /bus ROOT /hardwareid $hardwareId
    if ($LASTEXITCODE -ne 0) {
        throw "devgen ended with $LASTEXITCODE"
    }
}

# Plug and Play installs the driver on a new device by itself.
Write-Output 'Waiting for each device to start.'
$deadline = (Get-Date).AddSeconds(60)
while (@(Get-Adapter | Where-Object { $_.Status -eq 'OK' }).Count -lt $Adapters) {
    if ((Get-Date) -gt $deadline) {
        Get-Adapter | Format-List InstanceId, Status, Problem | Out-String | Write-Output
        throw "An adapter does not start. See $env:SystemRoot\INF\setupapi.dev.log."
    }
    Start-Sleep -Seconds 1
}
# NDIS and TCP/IP come some time after that.
Write-Output 'Waiting for TCP/IP on each adapter.'
$deadline = (Get-Date).AddSeconds(30)
$instances = @(Get-Adapter | ForEach-Object { $_.InstanceId })
while (@(Get-NetAdapter | Where-Object { $_.PnPDeviceID -in $instances } |
            Where-Object { Get-NetIPInterface -InterfaceIndex $_.ifIndex -ErrorAction SilentlyContinue }).Count -lt $Adapters) {
    if ((Get-Date) -gt $deadline) {
        Get-NetAdapter | Format-Table Name, InterfaceDescription, Status | Out-String | Write-Output
        throw 'TCP/IP has no interface for an adapter after 30 s.'
    }
    Start-Sleep -Seconds 1
}
Get-NetAdapterRdma | Format-Table Name, InterfaceDescription, Enabled
# Not what pnputil ended with.
exit 0
